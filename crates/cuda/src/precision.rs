use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How exact large products are. Small steps are always computed in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits throughout.
    #[default]
    Fp32,
    /// Factors rounded to 19 bits on their way into the matrix units.
    Tf32,
    /// Activations and factors in bfloat16, sums in 32 bits; weights, gradients of weights and the optimiser stay in 32 bits.
    Bf16,
    /// The same in 16-bit floats of IEEE, finer and of a smaller range: gradients need a scaled loss.
    Fp16,
}

impl Precision {
    /// Whether values are stored in 16 bits where large products read them.
    pub fn is_half(self) -> bool {
        matches!(self, Precision::Bf16 | Precision::Fp16)
    }
}

/// Buffers of a plan that are stored in 16 bits, as the precision says.
#[derive(Clone, Debug, Default)]
pub struct Halves {
    pub buffers: BTreeSet<usize>,
    pub precision: Precision,
}

impl Halves {
    pub fn contains(&self, buffer: usize) -> bool {
        self.buffers.contains(&buffer)
    }

    /// Of their elements, in the source of kernels.
    pub fn type_name(&self) -> &'static str {
        if self.precision == Precision::Fp16 { "Fp16" } else { "Bf16" }
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        match text {
            "fp32" => Ok(Precision::Fp32),
            "tf32" => Ok(Precision::Tf32),
            "bf16" => Ok(Precision::Bf16),
            "fp16" => Ok(Precision::Fp16),
            _ => Err(format!("there is no precision \"{text}\": fp32, tf32, bf16 or fp16")),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "fp16",
        })
    }
}
