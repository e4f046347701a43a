//! Bytes that outlive a step: parameters and states by name, shared by every plan of a model.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use citius_graph::{LeafKind, Part, Seen, Shape};
use citius_plan::{Plan, Storage};

use crate::CpuError;
use crate::pages::{LARGE_PAGE, prefer_large_pages};
use crate::tensor_view::{self, Piece, TensorView, ViewLayout};

/// Memory aligned to a cache line (and to the widest vector), zeroed at first.
pub struct Aligned {
    pointer: *mut u8,
    layout: Layout,
}

/// Bytes that stay free behind more than [`LONG`]. A core that walks to the end asks for lines beyond, and would take them from the core
/// that writes what lies there.
const APART: usize = 2048;
const LONG: usize = 4096;

// SAFETY: the bytes are plain data; who may touch them when is decided by the owner (see `Leaf` and `Executable`).
unsafe impl Send for Aligned {}
unsafe impl Sync for Aligned {}

impl Aligned {
    /// For a few kilobytes, or what a kernel needs in the middle of a step: ends the process when there is no such memory.
    pub fn new(bytes: usize) -> Aligned {
        let layout = Layout::from_size_align(bytes.max(1), 64).unwrap_or(Layout::new::<u64>());
        Aligned::zeroed(bytes).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// An error when there is no such memory.
    pub fn try_new(bytes: usize) -> Result<Aligned, CpuError> {
        Aligned::zeroed(bytes).ok_or(CpuError::OutOfMemory(bytes))
    }

    fn zeroed(bytes: usize) -> Option<Aligned> {
        let apart = if bytes > LONG { APART } else { 0 };
        let align = if bytes >= LARGE_PAGE { LARGE_PAGE } else { 64 };
        let layout = Layout::from_size_align(bytes.checked_add(apart)?.max(64), align).ok()?;
        // SAFETY: the layout has a size above 0; what was allocated is written before it is read.
        let pointer = unsafe {
            let pointer = alloc(layout);
            if pointer.is_null() {
                return None;
            }
            prefer_large_pages(pointer, bytes);
            pointer.write_bytes(0, layout.size());
            pointer
        };
        Some(Aligned { pointer, layout })
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
    pub seen: Option<Seen>,
    /// Set when this is one piece of what the user sees.
    pub part: Option<Part>,
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
    pub fn admit(&mut self, plan: &Plan) -> Result<(), CpuError> {
        for buffer in &plan.buffers {
            let Storage::Leaf { name, kind, init, seen, part } = &buffer.storage else { continue };
            if *kind == LeafKind::Input || self.leaves.contains_key(name) {
                continue;
            }
            let (shape, part) = (buffer.shape.clone(), part.clone());
            let bytes = Arc::new(Aligned::try_new(shape.elements().saturating_mul(4))?);
            let leaf = Leaf { shape: shape.clone(), kind: *kind, seen: seen.clone(), part: part.clone(), bytes };
            self.leaves.insert(name.clone(), leaf);
            let seed = self.seed;
            if let Some(values) = self.get_mut(name) {
                init.fill_leaf(seed, name, &shape, part.as_ref(), values);
            }
        }
        Ok(())
    }

    /// The same values in memory of their own.
    pub fn try_clone(&self) -> Result<Memory, CpuError> {
        let mut copy = Memory::new(self.seed);
        for (name, leaf) in &self.leaves {
            let bytes = Arc::new(Aligned::try_new(leaf.shape.elements().saturating_mul(4))?);
            let Leaf { shape, kind, seen, part, .. } = leaf;
            let (shape, seen, part) = (shape.clone(), seen.clone(), part.clone());
            copy.leaves.insert(name.clone(), Leaf { shape, kind: *kind, seen, part, bytes });
            if let (Some(to), Some(from)) = (copy.get_mut(name), self.get(name)) {
                to.copy_from_slice(from);
            }
        }
        Ok(copy)
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
        self.leaves.get_mut(name).map(Leaf::values_mut)
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

    /// Names of the parameters as the user knows them, whether stored whole or in pieces.
    pub fn parameters(&self) -> Vec<String> {
        self.names(|leaf| leaf.kind == LeafKind::Parameter)
    }

    /// Names of the parameters and states as the user knows them, whether stored whole or in pieces.
    pub fn tensors(&self) -> Vec<String> {
        self.names(|_| true)
    }

    fn names(&self, wanted: impl Fn(&Leaf) -> bool) -> Vec<String> {
        let leaves = self.leaves.iter().filter(|(_, leaf)| wanted(leaf));
        let mut names: Vec<String> =
            leaves.map(|(name, l)| l.part.as_ref().map_or(name, |p| &p.whole).clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// A tensor as the user sees it: shards are put together, a matrix stored transposed is turned back.
    pub fn view(&self, name: &str) -> Option<TensorView<'_>> {
        self.view_of(name, |leaf| self.get(leaf))
    }

    /// As [`Memory::view`], of values that are stored elsewhere as they would be here; `stored` finds those of a leaf.
    pub fn view_of<'a>(&self, name: &str, stored: impl Fn(&str) -> Option<&'a [f32]>) -> Option<TensorView<'a>> {
        let (layout, shards) = self.layout(name)?;
        let piece = |(leaf, range)| stored(leaf).map(|values| Piece { range, values });
        TensorView::new(layout, shards.into_iter().map(piece).collect::<Option<_>>()?)
    }

    /// Shape and values of [`Memory::view`].
    pub fn user_view(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        self.view(name).map(|view| (view.shape().to_vec(), view.to_vec()))
    }

    /// The shape that the user sees.
    pub fn shape_of(&self, name: &str) -> Option<Vec<usize>> {
        self.layout(name).map(|(layout, _)| layout.shape)
    }

    /// Sets a tensor to values in the user's order; `false` when there is none of that size.
    pub fn set_user_view(&mut self, name: &str, values: &[f32]) -> bool {
        let Some((layout, shards)) = self.layout(name) else { return false };
        let ranges: BTreeMap<String, Range<usize>> =
            shards.into_iter().map(|(n, range)| (n.to_owned(), range)).collect();
        let leaves = self.leaves.iter_mut().filter_map(|(name, leaf)| Some((ranges.get(name)?.clone(), leaf)));
        let mut pieces: Vec<Piece<&mut [f32]>> =
            leaves.map(|(range, leaf)| Piece { range, values: leaf.values_mut() }).collect();
        tensor_view::write(&layout, &mut pieces, values)
    }

    /// Writes values in the user's order to copies of the leaves that hold a tensor here; `false` where names or sizes differ.
    pub fn write_to(&self, name: &str, values: &[f32], leaves: &mut BTreeMap<String, Vec<f32>>) -> bool {
        let Some((layout, shards)) = self.layout(name) else { return false };
        let ranges: BTreeMap<&str, Range<usize>> = shards.into_iter().collect();
        let copies = leaves.iter_mut().filter_map(|(name, own)| Some((ranges.get(name.as_str())?.clone(), own)));
        let mut pieces: Vec<Piece<&mut [f32]>> =
            copies.map(|(range, own)| Piece { range, values: &mut own[..] }).collect();
        tensor_view::write(&layout, &mut pieces, values)
    }

    /// How a tensor is stored, and the leaves that hold it, each with its range of the axis that is cut.
    fn layout(&self, name: &str) -> Option<(ViewLayout, Shards<'_>)> {
        let whole = self.leaves.get_key_value(name).filter(|(_, leaf)| leaf.part.is_none());
        let (first, stored, shards) = match whole {
            Some((name, leaf)) => (leaf, leaf.shape.dims().to_vec(), vec![(name.as_str(), 0..1)]),
            None => {
                let shards: Shards =
                    self.leaves.iter().filter_map(|(n, leaf)| Some((n.as_str(), leaf.range_of(name)?))).collect();
                let leaf = self.leaves.get(shards.first()?.0)?;
                (leaf, leaf.part.as_ref()?.whole_dims(&leaf.shape), shards)
            }
        };
        let cut = first.part.as_ref().map(|part| part.axis);
        let (shape, order) = match &first.seen {
            Some(seen) => (seen.dims.clone(), seen.order.clone()),
            None => (stored.clone(), (0..stored.len()).collect()),
        };
        Some((ViewLayout { shape, order, stored, cut }, shards))
    }
}

/// Leaves that hold a tensor, each with its range of the axis that is cut.
type Shards<'a> = Vec<(&'a str, Range<usize>)>;

impl Leaf {
    /// The range of its axis that this shard of a tensor holds.
    fn range_of(&self, tensor: &str) -> Option<Range<usize>> {
        let part = self.part.as_ref().filter(|part| part.whole == tensor)?;
        let size = self.shape.dims().get(part.axis)?;
        Some(part.start..part.start + size)
    }

    fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: the buffer holds `elements` f32; `&mut self` comes from `&mut Memory`, which excludes every other view.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.pointer() as *mut f32, self.shape.elements()) }
    }
}
