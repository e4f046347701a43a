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
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        match text {
            "fp32" => Ok(Precision::Fp32),
            "tf32" => Ok(Precision::Tf32),
            "bf16" => Ok(Precision::Bf16),
            _ => Err(format!("there is no precision \"{text}\": fp32, tf32 or bf16")),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        })
    }
}
