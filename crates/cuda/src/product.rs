//! Products by cuBLASLt.

use std::ffi::c_void;

use citius_plan::{Matmul, Operand};
use cudarc::cublaslt::{result, sys};

use crate::device::Stream;
use crate::error::CudaError;
use crate::precision::Precision;

/// Memory that the library may use while it multiplies: what NVIDIA advises for Hopper.
pub const WORKSPACE: usize = 32 << 20;

/// The library.
pub struct Library {
    handle: sys::cublasLtHandle_t,
}

// SAFETY: a handle; calls are made by one thread at a time.
unsafe impl Send for Library {}

impl Library {
    pub fn open() -> Result<Library, CudaError> {
        // SAFETY: only looks whether the library can be loaded.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoLibrary);
        }
        Ok(Library { handle: result::create_handle().map_err(failed)? })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: created in `open`.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

fn failed(e: result::CublasError) -> CudaError {
    CudaError::Device { doing: "multiplying", what: format!("{e}") }
}

/// A product with everything decided but the addresses. The library counts columns first, so it computes Cᵀ = Bᵀ·Aᵀ.
pub struct Product {
    description: sys::cublasLtMatmulDesc_t,
    left: sys::cublasLtMatrixLayout_t,
    right: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: as `Library`.
unsafe impl Send for Product {}

impl Product {
    /// `half`: which of A, B and C are stored in 16 bits.
    pub fn new(library: &Library, m: &Matmul, half: [bool; 3], precision: Precision) -> Result<Product, CudaError> {
        let compute = match precision {
            Precision::Fp32 | Precision::Bf16 | Precision::Fp16 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        };
        let description = result::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F).map_err(failed)?;
        let dtype = |side: usize| match (half[side], precision) {
            (false, _) => sys::cudaDataType_t::CUDA_R_32F,
            (true, Precision::Fp16) => sys::cudaDataType_t::CUDA_R_16F,
            (true, _) => sys::cudaDataType_t::CUDA_R_16BF,
        };
        let batches = m.outer.first().copied();
        let stride = |o: &Operand| o.outer.first().copied().unwrap_or(0);
        let out = &m.operands[m.stores[0].1];
        // seen by columns, a matrix stored by rows is its transpose: B is [n,k], A is [k,m]
        let (left, left_turned) = layout(m.k, m.n, &m.b, dtype(1), batches, stride(&m.b))?;
        let (right, right_turned) = layout(m.m, m.k, &m.a, dtype(0), batches, stride(&m.a))?;
        let (out, _) = layout(m.m, m.n, out, dtype(2), batches, stride(out))?;
        use sys::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
        for (attribute, turned) in
            [(CUBLASLT_MATMUL_DESC_TRANSA, left_turned), (CUBLASLT_MATMUL_DESC_TRANSB, right_turned)]
        {
            let value: i32 = turned as i32;
            // SAFETY: the attribute is a 32-bit operation code: 0 as it is, 1 transposed.
            unsafe {
                result::set_matmul_desc_attribute(description, attribute, &value as *const i32 as *const c_void, 4)
                    .map_err(failed)?;
            }
        }
        let preference = result::create_matmul_pref().map_err(failed)?;
        let most = WORKSPACE;
        // SAFETY: the attribute is a size; all descriptors were just created.
        let found = unsafe {
            let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            result::set_matmul_pref_attribute(preference, attribute, &most as *const usize as *const c_void, 8)
                .map_err(failed)?;
            result::get_matmul_algo_heuristic(library.handle, description, left, right, out, out, preference)
                .map_err(failed)
        };
        // SAFETY: created above.
        let _ = unsafe { result::destroy_matmul_pref(preference) };
        Ok(Product { description, left, right, out, algorithm: found?.algo })
    }

    /// SAFETY: the addresses lead to matrices of the product's shapes, and `workspace` to [`WORKSPACE`] bytes.
    pub unsafe fn run(
        &self,
        library: &Library,
        [a, b, c]: [u64; 3],
        workspace: u64,
        stream: &Stream,
    ) -> Result<(), CudaError> {
        let (one, zero) = (1.0f32, 0.0f32);
        result::matmul(
            library.handle,
            self.description,
            &one as *const f32 as *const c_void,
            &zero as *const f32 as *const c_void,
            b as *const c_void,
            self.left,
            a as *const c_void,
            self.right,
            c as *const c_void,
            self.out,
            c as *mut c_void,
            self.out,
            &self.algorithm,
            workspace as *mut c_void,
            WORKSPACE,
            stream.handle as sys::cudaStream_t,
        )
        .map_err(failed)
    }
}

/// The layout of a matrix [rows, cols] for a library that counts columns first, and whether it has to turn it.
fn layout(
    rows: usize,
    cols: usize,
    o: &Operand,
    dtype: sys::cudaDataType_t,
    batches: Option<usize>,
    stride: usize,
) -> Result<(sys::cublasLtMatrixLayout_t, bool), CudaError> {
    let turned = o.col != 1;
    let (height, width, step) = if turned { (rows, cols, o.col) } else { (cols, rows, o.row) };
    let layout = result::create_matrix_layout(dtype, height as u64, width as u64, step as i64).map_err(failed)?;
    if let Some(count) = batches {
        use sys::cublasLtMatrixLayoutAttribute_t::*;
        let (count, stride) = (count as i32, stride as i64);
        // SAFETY: the attributes are a 32-bit count and a 64-bit stride.
        unsafe {
            let pointer = &count as *const i32 as *const c_void;
            result::set_matrix_layout_attribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, pointer, 4)
                .map_err(failed)?;
            let pointer = &stride as *const i64 as *const c_void;
            result::set_matrix_layout_attribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, pointer, 8)
                .map_err(failed)?;
        }
    }
    Ok((layout, turned))
}

impl Drop for Product {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        unsafe {
            let _ = result::destroy_matmul_desc(self.description);
            for layout in [self.left, self.right, self.out] {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}
