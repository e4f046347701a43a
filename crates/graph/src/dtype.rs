use std::fmt;

/// Element type of a tensor. Arithmetic happens in `F32`; the others are how data arrives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DType {
    F32,
    /// Class labels and row numbers.
    I32,
    /// Pictures as stored; widened inside the step.
    U8,
}

impl DType {
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::U8 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::I32 => "i32",
            DType::U8 => "u8",
        })
    }
}
