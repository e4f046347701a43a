//! Bytes that outlive a step: parameters and states by name, shared by every plan of a model.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::sync::Arc;

use citius_graph::{LeafKind, Shape};
use citius_plan::{Plan, Storage};

/// Memory aligned to a cache line (and to the widest vector), zeroed at first.
pub struct Aligned {
    pointer: *mut u8,
    layout: Layout,
}

// SAFETY: the bytes are plain data; who may touch them when is decided by the owner (see `Leaf` and `Executable`).
unsafe impl Send for Aligned {}
unsafe impl Sync for Aligned {}

impl Aligned {
    pub fn new(bytes: usize) -> Aligned {
        let layout = Layout::from_size_align(bytes.max(64), 64).unwrap_or(Layout::new::<[u8; 64]>());
        // SAFETY: the layout has a size above 0.
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() {
            handle_alloc_error(layout);
        }
        Aligned { pointer, layout }
    }

    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.pointer, self.layout) }
    }
}

/// One parameter or state.
pub struct Leaf {
    pub shape: Shape,
    pub kind: LeafKind,
    /// Stored as the transpose of what the user sees.
    pub transposed: bool,
    pub(crate) bytes: Arc<Aligned>,
}

/// Parameters and states of a model, f32, by name.
pub struct Memory {
    seed: u64,
    leaves: BTreeMap<String, Leaf>,
}

impl Memory {
    pub fn new(seed: u64) -> Memory {
        Memory { seed, leaves: BTreeMap::new() }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Makes room for the leaves of a plan; new ones get their initial values.
    pub fn admit(&mut self, plan: &Plan) {
        for buffer in &plan.buffers {
            let Storage::Leaf { name, kind, init, transposed } = &buffer.storage else { continue };
            if *kind == LeafKind::Input || self.leaves.contains_key(name) {
                continue;
            }
            let bytes = Arc::new(Aligned::new(buffer.shape.elements() * 4));
            let leaf = Leaf { shape: buffer.shape.clone(), kind: *kind, transposed: *transposed, bytes };
            self.leaves.insert(name.clone(), leaf);
            let mut values = vec![0.0; buffer.shape.elements()];
            init.fill(self.seed, name, &mut values);
            self.set(name, &values);
        }
    }

    pub fn leaves(&self) -> impl Iterator<Item = (&str, &Leaf)> {
        self.leaves.iter().map(|(name, leaf)| (name.as_str(), leaf))
    }

    pub fn leaf(&self, name: &str) -> Option<&Leaf> {
        self.leaves.get(name)
    }

    /// The values as stored.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        let leaf = self.leaves.get(name)?;
        // SAFETY: the buffer holds `elements` f32; an executable writes it only while it has `&mut Memory`.
        Some(unsafe { std::slice::from_raw_parts(leaf.bytes.pointer() as *const f32, leaf.shape.elements()) })
    }

    /// Values of the given name as stored, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut [f32]> {
        let leaf = self.leaves.get(name)?;
        // SAFETY: as in `get`, and `&mut self` excludes every other view.
        Some(unsafe { std::slice::from_raw_parts_mut(leaf.bytes.pointer() as *mut f32, leaf.shape.elements()) })
    }

    /// Sets the values as stored; `false` when there is no such leaf of that size.
    pub fn set(&mut self, name: &str, values: &[f32]) -> bool {
        match self.get_mut(name) {
            Some(target) if target.len() == values.len() => {
                target.copy_from_slice(values);
                true
            }
            _ => false,
        }
    }

    /// (shape, values) as the user sees them: a matrix stored transposed is turned.
    pub fn user_view(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let leaf = self.leaves.get(name)?;
        let (dims, values) = (leaf.shape.dims(), self.get(name)?);
        match (leaf.transposed, dims) {
            (true, &[rows, cols]) => Some((vec![cols, rows], turned(values, rows, cols))),
            _ => Some((dims.to_vec(), values.to_vec())),
        }
    }

    /// The inverse of [`Memory::user_view`].
    pub fn set_user_view(&mut self, name: &str, values: &[f32]) -> bool {
        let Some(leaf) = self.leaves.get(name) else { return false };
        match (leaf.transposed, leaf.shape.dims()) {
            (true, &[rows, cols]) if values.len() == rows * cols => self.set(name, &turned(values, cols, rows)),
            _ => self.set(name, values),
        }
    }
}

fn turned(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|c| (0..rows).map(move |r| values[r * cols + c])).collect()
}
