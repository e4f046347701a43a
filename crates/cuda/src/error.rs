use citius_graph::{DType, OutOfRange};

/// What keeps a plan from running on a GPU.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    #[error("no NVIDIA driver on this machine (libcuda is missing): install one, or use --device cpu")]
    NoDriver,
    #[error("no NVIDIA GPU is visible: {0}; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu")]
    NoDevice(String),
    #[error("there is no GPU {asked}: this machine has {count}, numbered from 0")]
    NoSuchDevice { asked: usize, count: usize },
    #[error(
        "the driver supports CUDA {found}, this program needs {needed}: update the NVIDIA driver, or use --device cpu"
    )]
    OldDriver { found: String, needed: String },
    #[error("{name} has compute capability {major}.{minor}, this program needs 7.0 or newer: use --device cpu")]
    OldDevice { name: String, major: i32, minor: i32 },
    #[error(
        "libnvrtc is missing, which compiles kernels: install the CUDA toolkit (package cuda-nvrtc), or pip's \
         nvidia-cuda-nvrtc with its lib folder in LD_LIBRARY_PATH; or use --device cpu"
    )]
    NoCompiler,
    #[error(
        "libcublasLt is missing, which multiplies large matrices: install the CUDA toolkit (package libcublas), or pip's \
         nvidia-cublas with its lib folder in LD_LIBRARY_PATH; or use --device cpu"
    )]
    NoLibrary,
    #[error("the generated kernel does not compile; please report this\n{0}")]
    Compile(String),
    #[error(
        "{what} needs {needed} bytes on the GPU, {free} of {total} are free: use a smaller batch or network, or close other programs on it"
    )]
    OutOfMemory { what: &'static str, needed: usize, free: usize, total: usize },
    #[error("input \"{name}\" has {found} {found_type} values, the step was compiled for {expected} {expected_type}")]
    Input { name: String, found: usize, found_type: DType, expected: usize, expected_type: DType },
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error("\"{0}\" is missing from this memory: call admit() with the plan first")]
    Missing(String),
    #[error("this plan breaks its own rules: {0}")]
    Plan(String),
    #[error("the GPU failed while {doing}: {what}")]
    Device { doing: &'static str, what: String },
}
