//! A GPU and what is taken from it: memory, streams, kernels. Everything is given back when dropped.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::choice::Chip;
use crate::error::CudaError;
use crate::schedule::Team;

/// The oldest driver whose interface we use.
const NEEDED: i32 = 12_000;
/// … and the oldest that records kernels which are started before the one before has ended.
const RECORDS_EARLY: i32 = 12_030;

/// An opened GPU.
pub struct Device {
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    pub multiprocessors: usize,
    pub total_bytes: usize,
    /// Of a block's own memory.
    pub block_bytes: usize,
    /// Of the driver.
    version: i32,
    handle: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a primary context may be used by any thread that makes it current, which `enter` does.
unsafe impl Send for Device {}
// SAFETY: as above; the driver serialises calls.
unsafe impl Sync for Device {}

impl Device {
    /// Whether there is a driver at all; takes no time.
    pub fn has_driver() -> bool {
        // SAFETY: only looks whether the library can be loaded.
        unsafe { sys::is_culib_present() }
    }

    /// Opens a GPU by number.
    pub fn open(index: usize) -> Result<Arc<Device>, CudaError> {
        if !Device::has_driver() {
            return Err(CudaError::NoDriver);
        }
        result::init().map_err(|e| CudaError::NoDevice(words(e)))?;
        let mut version = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) };
        if version < NEEDED {
            let text = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
            return Err(CudaError::OldDriver { found: text(version), needed: text(NEEDED) });
        }
        let count = result::device::get_count().map_err(|e| CudaError::NoDevice(words(e)))? as usize;
        if count == 0 {
            return Err(CudaError::NoDevice("the driver lists none".into()));
        }
        if index >= count {
            return Err(CudaError::NoSuchDevice { asked: index, count });
        }
        let failed = |e| device_error("opening it", e);
        let handle = result::device::get(index as i32).map_err(failed)?;
        let name = result::device::get_name(handle).map_err(failed)?;
        use sys::CUdevice_attribute::*;
        // SAFETY: `handle` is a device that the driver gave.
        let attribute = |a| unsafe { result::device::get_attribute(handle, a) }.map_err(failed);
        let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 7 {
            return Err(CudaError::OldDevice { name, major, minor });
        }
        let multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let block_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize;
        // SAFETY: as above.
        let total_bytes = unsafe { result::device::total_mem(handle) }.map_err(failed)?;
        // SAFETY: as above; released when dropped.
        let context = unsafe { result::primary_ctx::retain(handle) }.map_err(failed)?;
        let device = Device {
            name,
            capability: (major, minor),
            multiprocessors,
            total_bytes,
            block_bytes,
            version,
            handle,
            context,
        };
        device.enter()?;
        Ok(Arc::new(device))
    }

    /// Makes it the calling thread's GPU.
    pub fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| device_error("opening it", e))
    }

    /// What decides how it runs a plan.
    pub fn chip(&self) -> Chip {
        Chip { multiprocessors: self.multiprocessors, capability: self.capability }
    }

    /// Blocks can be started as clusters.
    pub fn has_clusters(&self) -> bool {
        self.capability.0 >= 9
    }

    /// A kernel can be on its way while the one before it still runs, in recorded work too.
    pub fn starts_early(&self) -> bool {
        self.capability.0 >= 9 && self.version >= RECORDS_EARLY
    }

    /// Of these blocks, as many as can be started together: clusters of 16 are not everywhere.
    pub fn most_blocks(&self, blocks: usize) -> usize {
        let large_clusters = matches!(self.capability, (9, 0) | (10, _));
        if self.has_clusters() && !large_clusters && (9..=LARGEST_CLUSTER).contains(&blocks) { 8 } else { blocks }
    }

    /// (free, total) bytes.
    pub fn memory(&self) -> (usize, usize) {
        result::mem_get_info().unwrap_or((0, self.total_bytes))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`.
        let _ = unsafe { result::primary_ctx::release(self.handle) };
    }
}

pub fn words(e: DriverError) -> String {
    match (e.error_name(), e.error_string()) {
        (Ok(name), Ok(text)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("{e:?}"),
    }
}

pub fn device_error(doing: &'static str, e: DriverError) -> CudaError {
    CudaError::Device { doing, what: words(e) }
}

/// Memory of the GPU.
pub struct Bytes {
    pub pointer: sys::CUdeviceptr,
    pub len: usize,
    _device: Arc<Device>,
}

impl Bytes {
    /// Zeroed.
    pub fn new(device: &Arc<Device>, what: &'static str, len: usize) -> Result<Bytes, CudaError> {
        let size = len.max(256);
        // SAFETY: a plain allocation, freed when dropped.
        let pointer = unsafe { result::malloc_sync(size) }.map_err(|e| {
            let (free, total) = device.memory();
            match e.0 {
                sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => CudaError::OutOfMemory { what, needed: size, free, total },
                _ => device_error("taking memory", e),
            }
        })?;
        let bytes = Bytes { pointer, len: size, _device: device.clone() };
        // SAFETY: just allocated with this size.
        unsafe { result::memset_d8_async(pointer, 0, size, OWN_STREAM) }
            .map_err(|e| device_error("clearing memory", e))?;
        landed("clearing memory")?;
        Ok(bytes)
    }

    /// Writes `data` at a byte offset.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        assert!(offset + data.len() <= self.len, "writes beyond the end of device memory");
        // SAFETY: inside the allocation.
        unsafe { result::memcpy_htod_async(self.pointer + offset as u64, data, OWN_STREAM) }
            .map_err(|e| device_error("copying to it", e))?;
        landed("copying to it")
    }

    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), CudaError> {
        assert!(offset + data.len() <= self.len, "reads beyond the end of device memory");
        // SAFETY: inside the allocation.
        unsafe { result::memcpy_dtoh_async(data, self.pointer + offset as u64, OWN_STREAM) }
            .map_err(|e| device_error("copying from it", e))?;
        landed("copying from it")
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; after a device error there is nothing left to do.
        let _ = unsafe { result::free_sync(self.pointer) };
    }
}

/// The stream that every thread of the host has by itself (CU_STREAM_PER_THREAD). Waiting for the whole device instead would
/// break what another thread is recording.
const OWN_STREAM: sys::CUstream = 2 as sys::CUstream;

/// Copies may return before they have landed, and our streams do not wait for them.
fn landed(doing: &'static str) -> Result<(), CudaError> {
    // SAFETY: the stream is always there.
    unsafe { result::stream::synchronize(OWN_STREAM) }.map_err(|e| device_error(doing, e))
}

/// Memory of the host: pinned, so that the GPU copies from and to it by itself; or such as the system may move, which the driver first
/// copies to pinned memory of its own while the host waits.
pub struct HostBytes {
    pub pointer: *mut u8,
    /// What the system may move; none where it is pinned.
    movable: Option<Vec<u128>>,
    _device: Arc<Device>,
}

// SAFETY: plain bytes, owned.
unsafe impl Send for HostBytes {}

impl HostBytes {
    pub fn pinned(device: &Arc<Device>, len: usize) -> Result<HostBytes, CudaError> {
        let size = len.max(64);
        // SAFETY: freed when dropped.
        let pointer =
            unsafe { result::malloc_host(size, 0) }.map_err(|e| device_error("taking pinned memory", e))? as *mut u8;
        // SAFETY: just allocated with this size.
        unsafe { std::ptr::write_bytes(pointer, 0, size) };
        Ok(HostBytes { pointer, movable: None, _device: device.clone() })
    }

    /// Aligned to 16 bytes.
    pub fn movable(device: &Arc<Device>, len: usize) -> HostBytes {
        let mut bytes = vec![0u128; len.div_ceil(16).max(4)];
        HostBytes { pointer: bytes.as_mut_ptr().cast(), movable: Some(bytes), _device: device.clone() }
    }

    pub fn is_pinned(&self) -> bool {
        self.movable.is_none()
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        if self.is_pinned() {
            // SAFETY: allocated in `pinned`.
            let _ = unsafe { result::free_host(self.pointer as *mut c_void) };
        }
    }
}

/// Work in order.
pub struct Stream {
    pub handle: sys::CUstream,
    _device: Arc<Device>,
}

// SAFETY: a handle; the driver may be called from any thread.
unsafe impl Send for Stream {}

impl Stream {
    pub fn new(device: &Arc<Device>) -> Result<Stream, CudaError> {
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| device_error("starting a stream", e))?;
        Ok(Stream { handle, _device: device.clone() })
    }

    /// SAFETY: `from` holds `len` bytes and neither side is touched until the stream has done it.
    pub unsafe fn to_device(&self, to: sys::CUdeviceptr, from: *const u8, len: usize) -> Result<(), CudaError> {
        result::memcpy_htod_async(to, std::slice::from_raw_parts(from, len), self.handle)
            .map_err(|e| device_error("copying to it", e))
    }

    /// SAFETY: as [`Stream::to_device`].
    pub unsafe fn to_host(&self, to: *mut u8, from: sys::CUdeviceptr, len: usize) -> Result<(), CudaError> {
        result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(to, len), from, self.handle)
            .map_err(|e| device_error("copying from it", e))
    }

    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both handles live.
        unsafe { result::event::record(event.handle, self.handle) }.map_err(|e| device_error("running", e))
    }

    /// What comes after waits for the event.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles live.
        unsafe { result::stream::wait_event(self.handle, event.handle, flags) }.map_err(|e| device_error("running", e))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        let _ = unsafe { result::stream::destroy(self.handle) };
    }
}

/// A point in a stream.
pub struct Event {
    handle: sys::CUevent,
    _device: Arc<Device>,
}

// SAFETY: as `Stream`.
unsafe impl Send for Event {}

impl Event {
    pub fn new(device: &Arc<Device>) -> Result<Event, CudaError> {
        let handle =
            result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(|e| device_error("starting", e))?;
        Ok(Event { handle, _device: device.clone() })
    }

    /// Blocks until it has come.
    pub fn finish(&self) -> Result<(), CudaError> {
        // SAFETY: the handle lives.
        unsafe { result::event::synchronize(self.handle) }.map_err(|e| device_error("running a step", e))
    }

    /// Seconds since an earlier event; both have come.
    pub fn since(&self, earlier: &Event) -> Result<f64, CudaError> {
        // SAFETY: both handles live.
        let ms = unsafe { result::event::elapsed(earlier.handle, self.handle) };
        ms.map(|ms| ms as f64 / 1e3).map_err(|e| device_error("running a step", e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        let _ = unsafe { result::event::destroy(self.handle) };
    }
}

/// Compiled kernels.
pub struct Module {
    handle: sys::CUmodule,
    device: Arc<Device>,
}

// SAFETY: as `Stream`.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// From a cubin.
    pub fn load(device: &Arc<Device>, image: &[u8]) -> Result<Arc<Module>, CudaError> {
        // SAFETY: the image is a cubin; a damaged one is refused by the driver.
        let handle = unsafe { result::module::load_data(image.as_ptr() as *const c_void) }
            .map_err(|e| device_error("loading a kernel", e))?;
        Ok(Arc::new(Module { handle, device: device.clone() }))
    }

    pub fn kernel(self: &Arc<Module>, name: &str) -> Result<Kernel, CudaError> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module lives as long as the kernel.
        let function = unsafe { result::module::get_function(self.handle, name) }
            .map_err(|e| device_error("loading a kernel", e))?;
        Ok(Kernel { function, module: self.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`.
        let _ = unsafe { result::module::unload(self.handle) };
    }
}

/// A compiled kernel.
pub struct Kernel {
    function: sys::CUfunction,
    module: Arc<Module>,
}

// SAFETY: as `Stream`.
unsafe impl Send for Kernel {}

impl Kernel {
    /// Starts so many blocks, in any order, with so many bytes each beside those declared in the source.
    ///
    /// SAFETY: as [`Kernel::launch_together`].
    pub unsafe fn launch<T>(
        &self,
        stream: &Stream,
        blocks: usize,
        threads: usize,
        shared: usize,
        args: &mut T,
    ) -> Result<(), CudaError> {
        let mut parameters = [args as *mut T as *mut c_void];
        let (grid, block) = ((blocks as u32, 1, 1), (threads as u32, 1, 1));
        result::launch_kernel(self.function, grid, block, shared as u32, stream.handle, &mut parameters)
            .map_err(|e| device_error("starting a step", e))
    }

    /// As [`Kernel::launch`], but blocks may take their places as soon as all of the kernel before have theirs. Each waits for the end of
    /// that kernel by itself, as `level_begins` in the source does.
    ///
    /// SAFETY: as [`Kernel::launch_together`].
    pub unsafe fn launch_early<T>(
        &self,
        stream: &Stream,
        blocks: usize,
        threads: usize,
        shared: usize,
        args: &mut T,
    ) -> Result<(), CudaError> {
        let mut attribute: sys::CUlaunchAttribute = std::mem::zeroed();
        attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        self.launch_with(stream, blocks, threads, shared, (&mut attribute, 1), args)
    }

    /// Lets clusters be larger than every GPU has them.
    pub fn allow_large_clusters(&self) -> Result<(), CudaError> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function lives.
        unsafe { sys::cuFuncSetAttribute(self.function, attribute, 1) }
            .result()
            .map_err(|e| device_error("loading a kernel", e))
    }

    /// Lets a block have so many bytes of memory of its own beside those declared in the source.
    pub fn allow_shared(&self, bytes: usize) -> Result<(), CudaError> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function lives.
        unsafe { sys::cuFuncSetAttribute(self.function, attribute, bytes as i32) }
            .result()
            .map_err(|e| device_error("loading a kernel", e))
    }

    /// Starts a team that is all there at once: as one cluster, or as a cooperative grid.
    ///
    /// SAFETY: `args` is what the kernel expects, and the memory it leads to lives until the stream has done it.
    pub unsafe fn launch_together<T>(
        &self,
        stream: &Stream,
        team: Team,
        shared: usize,
        args: &mut T,
    ) -> Result<(), CudaError> {
        let Team { blocks, groups, threads } = team;
        let mut attribute: sys::CUlaunchAttribute = std::mem::zeroed();
        if blocks <= LARGEST_CLUSTER && self.module.device.has_clusters() {
            attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attribute.value.clusterDim.x = blocks as u32;
            attribute.value.clusterDim.y = 1;
            attribute.value.clusterDim.z = 1;
        } else {
            attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attribute.value.cooperative = 1;
        }
        self.launch_with(stream, blocks, groups * threads, shared, (&mut attribute, (blocks > 1) as u32), args)
    }

    /// SAFETY: as [`Kernel::launch_together`]; there are so many attributes.
    unsafe fn launch_with<T>(
        &self,
        stream: &Stream,
        blocks: usize,
        threads: usize,
        shared: usize,
        (attributes, count): (*mut sys::CUlaunchAttribute, u32),
        args: &mut T,
    ) -> Result<(), CudaError> {
        let config = sys::CUlaunchConfig {
            gridDimX: blocks as u32,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared as u32,
            hStream: stream.handle,
            attrs: attributes,
            numAttrs: count,
        };
        let mut parameters = [args as *mut T as *mut c_void];
        sys::cuLaunchKernelEx(&config, self.function, parameters.as_mut_ptr(), std::ptr::null_mut())
            .result()
            .map_err(|e| device_error("starting a step", e))
    }
}

/// Blocks that can wait for each other without going through memory.
pub const LARGEST_CLUSTER: usize = 16;

/// Work recorded from a stream, to be started as a whole.
pub struct Graph {
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
}

// SAFETY: as `Stream`.
unsafe impl Send for Graph {}

impl Graph {
    /// What `work` puts into the stream is recorded instead of done.
    pub fn record(stream: &Stream, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Graph, CudaError> {
        let failed = |e| device_error("recording a step", e);
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives; capturing ends below in any case.
        let graph = unsafe {
            result::stream::begin_capture(stream.handle, mode).map_err(failed)?;
            let worked = work();
            let graph = result::stream::end_capture(stream.handle).map_err(failed);
            worked?;
            graph?
        };
        // SAFETY: just recorded; destroyed when dropped.
        let ready = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }.map_err(failed)?;
        Ok(Graph { graph, ready })
    }

    pub fn start(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { result::graph::launch(self.ready, stream.handle) }.map_err(|e| device_error("starting a step", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made in `record`.
        unsafe {
            let _ = result::graph::exec_destroy(self.ready);
            let _ = result::graph::destroy(self.graph);
        }
    }
}
