//! Bytes that outlive a step: parameters and states by name, shared by every plan of a model.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::sync::Arc;

use citius_graph::{LeafKind, Part, Seen, Shape};
use citius_plan::{Plan, Storage};

use crate::pages::{LARGE_PAGE, prefer_large_pages};

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
    pub fn new(bytes: usize) -> Aligned {
        let layout = || Layout::from_size_align(bytes.max(1), 1).unwrap_or(Layout::new::<[u8; 64]>());
        Aligned::try_new(bytes).unwrap_or_else(|| handle_alloc_error(layout()))
    }

    /// `None` when there is no such memory.
    pub fn try_new(bytes: usize) -> Option<Aligned> {
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
    pub fn admit(&mut self, plan: &Plan) {
        for buffer in &plan.buffers {
            let Storage::Leaf { name, kind, init, seen, part } = &buffer.storage else { continue };
            if *kind == LeafKind::Input || self.leaves.contains_key(name) {
                continue;
            }
            let bytes = Arc::new(Aligned::new(buffer.shape.elements().saturating_mul(4)));
            let (shape, part) = (buffer.shape.clone(), part.clone());
            let leaf = Leaf { shape: shape.clone(), kind: *kind, seen: seen.clone(), part: part.clone(), bytes };
            self.leaves.insert(name.clone(), leaf);
            let values = init.values(self.seed, name, &shape, part.as_ref());
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

    /// (shape, values) as the user sees them: pieces are put together, a matrix stored transposed is turned.
    pub fn user_view(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        self.joined(name, |leaf| self.get(leaf))
    }

    /// The shape that the user sees.
    pub fn shape_of(&self, name: &str) -> Option<Vec<usize>> {
        let (dims, seen, _) = self.pieces(name)?;
        Some(seen.map_or(dims, |seen| seen.dims.clone()))
    }

    /// As [`Memory::user_view`], of values that are stored elsewhere as they would be here; `stored` finds those of a leaf.
    pub fn joined<'a>(&self, name: &str, stored: impl Fn(&str) -> Option<&'a [f32]>) -> Option<(Vec<usize>, Vec<f32>)> {
        let (dims, seen, pieces) = self.pieces(name)?;
        let mut values = vec![0.0; dims.iter().product()];
        for piece_name in pieces {
            let leaf = self.leaves.get(&piece_name)?;
            let stored = stored(&piece_name).filter(|stored| stored.len() == leaf.shape.elements())?;
            match &leaf.part {
                Some(part) => part.each(&leaf.shape, |i, w| values[w] = stored[i]),
                None => values.copy_from_slice(stored),
            }
        }
        match seen {
            Some(seen) => Some((seen.dims.clone(), seen.of_stored(&dims, &values))),
            None => Some((dims, values)),
        }
    }

    /// The inverse of [`Memory::user_view`]; `false` when there is no such tensor of that size.
    pub fn set_user_view(&mut self, name: &str, values: &[f32]) -> bool {
        let pieces = self.parted(name, values);
        pieces.is_some_and(|pieces| pieces.iter().all(|(leaf, own)| self.set(leaf, own)))
    }

    /// The inverse of [`Memory::joined`]: the leaves that hold a tensor, each with its values as stored.
    pub fn parted(&self, name: &str, values: &[f32]) -> Option<Vec<(String, Vec<f32>)>> {
        let (dims, seen, pieces) = self.pieces(name)?;
        if values.len() != dims.iter().product::<usize>() {
            return None;
        }
        let values = seen.map_or_else(|| values.to_vec(), |seen| seen.to_stored(&dims, values));
        let own = |name: String| {
            let leaf = self.leaves.get(&name)?;
            let mut own = values.clone();
            if let Some(part) = &leaf.part {
                own.truncate(leaf.shape.elements());
                part.each(&leaf.shape, |i, w| own[i] = values[w]);
            }
            Some((name, own))
        };
        pieces.into_iter().map(own).collect()
    }

    /// (stored shape of the whole, how the user sees it, names of the leaves that hold it)
    fn pieces(&self, name: &str) -> Option<(Vec<usize>, Option<&Seen>, Vec<String>)> {
        if let Some(leaf) = self.leaves.get(name) {
            return Some((leaf.shape.dims().to_vec(), leaf.seen.as_ref(), vec![name.to_string()]))
                .filter(|_| leaf.part.is_none());
        }
        let of_whole = |l: &Leaf| l.part.as_ref().is_some_and(|p| p.whole == name);
        let pieces: Vec<(&String, &Leaf)> = self.leaves.iter().filter(|(_, l)| of_whole(l)).collect();
        let (_, first) = pieces.first()?;
        let part = first.part.as_ref()?;
        Some((part.whole_dims(&first.shape), first.seen.as_ref(), pieces.iter().map(|(n, _)| n.to_string()).collect()))
    }
}
