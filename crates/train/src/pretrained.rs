//! Weights that another program has trained: a safetensors file, read by name. PyTorch's
//! `safetensors.torch.save_file(model.state_dict(), path)` writes one.
//!
//! ```no_run
//! use citius_cpu::{Executable, Memory, Options};
//! use citius_graph::{Graph, Mode};
//! use citius_nn::{Depth, Module, ResNet, Stem};
//! use citius_train::Pretrained;
//!
//! let g = Graph::with_mode(Mode::Eval);
//! let model = ResNet { inputs: 3, outputs: 1000, depth: Depth::Eighteen, stem: Stem::Imagenet, width: 64 };
//! g.output("logits", &model.forward(&g.input("x", &[1, 3, 224, 224])));
//! let mut memory = Memory::new(0);
//! let executable = Executable::new(citius_plan::compile(&g)?, &mut memory, Options::default())?;
//! Pretrained::read("resnet18.safetensors".as_ref())?.load(&mut memory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use citius_cpu::Memory;
use citius_data::Escaped;
use citius_graph::Names;
use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use crate::{TrainError, files};

/// What batch norm counts; files of older programs and our own do without it.
const COUNTER: &str = "num_batches_tracked";
/// Names of each kind that an error tells.
const TOLD: usize = 4;

/// A file of weights by name.
pub struct Pretrained {
    path: PathBuf,
    bytes: Vec<u8>,
    shapes: BTreeMap<String, Vec<usize>>,
}

/// How a file's tensors are matched with a network's.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// What the file's names begin with and the network's do not, such as `module.`; found out when open.
    pub prefix: Option<String>,
    /// Tensors of the file that are left out, by name or pattern.
    pub ignore: Names,
    /// Tensors of the network that stay as they are.
    pub fresh: Vec<String>,
}

/// Shape and values of a tensor.
pub type Numbers = (Vec<usize>, Vec<f32>);

/// What a file gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Tensors set.
    pub tensors: usize,
    /// What the file's names began with.
    pub prefix: String,
}

impl Matching {
    /// Whether a tensor of the network keeps what it began with.
    pub(crate) fn leaves_out(&self, name: &str) -> bool {
        self.fresh.iter().any(|fresh| fresh == name) || self.ignores(name)
    }

    /// By the network's name, or by the file's.
    fn ignores(&self, name: &str) -> bool {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        self.ignore.covers(name) || !prefix.is_empty() && self.ignore.covers(&format!("{prefix}{name}"))
    }
}

impl Pretrained {
    /// Reads a safetensors file, or that of a directory that `citius train` wrote.
    pub fn read(path: &Path) -> Result<Pretrained, TrainError> {
        let path = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
        let bytes = files::read_tensors(&path)?;
        if let Some(what) = other_format(&bytes) {
            let next =
                "save it in PyTorch with safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\")";
            return Err(TrainError::saved(&path, format!("is {what}, not safetensors"), next));
        }
        let mut file = Pretrained { path, bytes, shapes: BTreeMap::new() };
        file.shapes = file.parsed()?.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect();
        Ok(file)
    }

    fn parsed(&self) -> Result<SafeTensors<'_>, TrainError> {
        SafeTensors::deserialize(&self.bytes).map_err(|e| self.damaged(&e))
    }

    fn damaged(&self, error: &SafeTensorError) -> TrainError {
        TrainError::saved(&self.path, format!("cut short or damaged ({error})"), "copy or save the file again")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shapes by the file's names.
    pub fn shapes(&self) -> &BTreeMap<String, Vec<usize>> {
        &self.shapes
    }

    /// Shape and numbers of a tensor of the file, converted to f32.
    pub fn tensor(&self, name: &str) -> Result<Option<Numbers>, TrainError> {
        let Some(shape) = self.shapes.get(name) else { return Ok(None) };
        let view = self.parsed()?;
        let view = view.tensor(name).map_err(|e| self.damaged(&e))?;
        Ok(Some((shape.clone(), self.values(name, &view)?)))
    }

    /// Sets all tensors of a network by name. `memory` must hold nothing but the network: bind what learns later.
    pub fn load(&self, memory: &mut Memory) -> Result<Taken, TrainError> {
        self.load_as(memory, &memory.tensors(), &Matching::default())
    }

    /// Sets the tensors `names` of a network. Nothing is set unless all fit: names that only one side has, and shapes that differ,
    /// are an error that tells them.
    pub fn load_as(&self, memory: &mut Memory, names: &[String], how: &Matching) -> Result<Taken, TrainError> {
        let wanted: BTreeMap<&str, Vec<usize>> =
            names.iter().filter_map(|name| Some((name.as_str(), memory.shape_of(name)?))).collect();
        let prefix = how.prefix.clone().unwrap_or_else(|| self.prefix_for(wanted.keys().copied()));
        let how = &Matching { prefix: Some(prefix.clone()), ..how.clone() };
        self.check(&wanted, how)?;
        let file = self.parsed()?;
        let mut found = Vec::new();
        for name in wanted.keys().filter(|name| !how.leaves_out(name)) {
            if let Ok(view) = file.tensor(&format!("{prefix}{name}")) {
                found.push((name, self.values(name, &view)?));
            }
        }
        let tensors = found.len();
        found.into_iter().for_each(|(name, values)| {
            memory.set_user_view(name, &values);
        });
        // a network that learns counts, one that predicts does not
        for (name, values) in self.counters(&file, &prefix)? {
            memory.set_user_view(&name, &values);
        }
        Ok(Taken { tensors, prefix })
    }

    /// The shape that the file has for a tensor of the network.
    pub(crate) fn shape_for(&self, prefix: &str, name: &str) -> Option<&[usize]> {
        self.shapes.get(&format!("{prefix}{name}")).map(Vec::as_slice)
    }

    /// What the file's names begin with where they then are the network's: nothing, unless more of them fit so.
    pub(crate) fn prefix_for<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> String {
        let start =
            |known: &'_ str, name: &str| known.strip_suffix(name).filter(|start| start.ends_with('.')).map(str::len);
        let starts = |known: &String| names.clone().filter_map(|name| start(known, name)).collect::<Vec<_>>();
        let candidates: BTreeSet<&str> =
            self.shapes.keys().flat_map(|known| starts(known).into_iter().map(|length| &known[..length])).collect();
        let fitting = |start: &str| names.clone().filter(|name| self.shape_for(start, name).is_some()).count();
        let plain = (fitting(""), "");
        let best = candidates
            .into_iter()
            .map(|start| (fitting(start), start))
            .fold(plain, |best, other| if other.0 > best.0 { other } else { best });
        best.1.to_owned()
    }

    /// Whether a network of these shapes fits; the prefix is open no more.
    pub(crate) fn check(&self, wanted: &BTreeMap<&str, Vec<usize>>, how: &Matching) -> Result<(), TrainError> {
        let prefix = how.prefix.as_deref().unwrap_or_default();
        let fresh = |name: &str| how.leaves_out(name);
        self.check_ignored(how)?;
        let own = |known: &str| known.strip_prefix(prefix).is_some_and(|name| wanted.contains_key(name));
        let counter = |name: &str| name.rsplit('.').next() == Some(COUNTER);
        let left_over: Vec<&str> = self.shapes.keys().map(String::as_str).filter(|known| !own(known)).collect();
        let (mut missing, mut other) = (Vec::new(), Vec::new());
        for (name, shape) in wanted.iter().filter(|(name, _)| !fresh(name)) {
            match self.shape_for(prefix, name) {
                Some(found) if found == shape => {}
                Some(found) => other.push(format!("{name} is {} there and {} here", dims(found), dims(shape))),
                None if counter(name) => {}
                None => {
                    let near = nearest(name, &left_over).map(|near| {
                        format!(" (nearest there: {near} {})", self.shapes.get(near).map_or(String::new(), |s| dims(s)))
                    });
                    missing.push(format!("{name} {}{}", dims(shape), near.unwrap_or_default()));
                }
            }
        }
        let extra: Vec<String> = left_over
            .into_iter()
            .filter(|name| !counter(name) && !how.ignores(name.strip_prefix(prefix).unwrap_or(name)))
            .map(|name| {
                let own: Vec<&str> = wanted.keys().copied().filter(|own| !fresh(own)).collect();
                let near = nearest(name.strip_prefix(prefix).unwrap_or(name), &own);
                let near = near.map(|near| format!(" (nearest here: {near} {})", dims(&wanted[near])));
                format!("{name} {}{}", dims(&self.shapes[name]), near.unwrap_or_default())
            })
            .collect();
        let begins = match prefix {
            "" => String::new(),
            prefix => format!("names begin with {prefix:?}, which is left out; "),
        };
        let kinds = [
            (other, "of another shape"),
            (missing, "missing from the file"),
            (extra, "in the file, but not in the network"),
        ];
        let said: Vec<String> =
            kinds.into_iter().filter(|(names, _)| !names.is_empty()).map(|(names, what)| list(&names, what)).collect();
        if said.is_empty() {
            return Ok(());
        }
        let problem = format!("does not fit the network: {begins}{}", said.join("; "));
        let next = "choose the network and sizes that the file is of, or leave tensors of the file out with --ignore";
        Err(TrainError::saved(&self.path, problem, next))
    }

    /// A pattern that covers nothing is a slip of the pen.
    fn check_ignored(&self, how: &Matching) -> Result<(), TrainError> {
        let idle = how.ignore.0.iter().find(|pattern| {
            let pattern = Matching { ignore: Names(vec![pattern.to_string()]), ..how.clone() };
            let prefix = how.prefix.as_deref().unwrap_or_default();
            !self.shapes.keys().any(|known| pattern.ignores(known.strip_prefix(prefix).unwrap_or(known)))
        });
        let Some(idle) = idle else { return Ok(()) };
        let names: Vec<&str> = self.shapes.keys().map(String::as_str).collect();
        let near = nearest(idle, &names).map_or(String::new(), |near| format!(", such as {near}"));
        let next = format!("leave it out of --ignore, or name what is there{near}");
        Err(TrainError::saved(&self.path, format!("no tensor is called {idle:?}"), next))
    }

    fn counters(&self, file: &SafeTensors, prefix: &str) -> Result<Vec<(String, Vec<f32>)>, TrainError> {
        let counters = self.shapes.keys().filter_map(|known| known.strip_prefix(prefix).map(|name| (known, name)));
        let counters = counters.filter(|(_, name)| name.rsplit('.').next() == Some(COUNTER));
        let read = |(known, name): (&String, &str)| {
            let view = file.tensor(known).ok()?;
            Some(self.values(known, &view).map(|values| (name.to_owned(), values)))
        };
        counters.filter_map(read).collect()
    }

    /// The numbers of a tensor, whatever they are stored as, if f32 can hold them.
    fn values(&self, name: &str, view: &TensorView) -> Result<Vec<f32>, TrainError> {
        let bad =
            |problem: String| TrainError::saved(&self.path, format!("tensor {name:?} {problem}"), "save it as F32");
        let data = view.data();
        let wide: Vec<f64> = match view.dtype() {
            Dtype::F32 => each(data, |b| f32::from_le_bytes(b) as f64),
            Dtype::F64 => each(data, f64::from_le_bytes),
            Dtype::F16 => each(data, |b| f16::from_le_bytes(b).to_f64()),
            Dtype::BF16 => each(data, |b| bf16::from_le_bytes(b).to_f64()),
            Dtype::I64 => each(data, |b| i64::from_le_bytes(b) as f64),
            Dtype::I32 => each(data, |b| i32::from_le_bytes(b) as f64),
            Dtype::I16 => each(data, |b| i16::from_le_bytes(b) as f64),
            Dtype::I8 => each(data, |b| i8::from_le_bytes(b) as f64),
            Dtype::U8 | Dtype::BOOL => each(data, |[b]: [u8; 1]| b as f64),
            other => return Err(bad(format!("holds {other:?}, which is not read here"))),
        };
        if let Some(at) = wide.iter().position(|v| !v.is_finite()) {
            return Err(bad(format!("has {} at element {at}", wide[at])));
        }
        if let Some(at) = wide.iter().position(|&v| !(v as f32).is_finite()) {
            return Err(bad(format!("has {:e} at element {at}, which is beyond f32", wide[at])));
        }
        let whole = !matches!(view.dtype(), Dtype::F32 | Dtype::F64 | Dtype::F16 | Dtype::BF16);
        if let Some(at) = wide.iter().position(|&v| whole && (v as f32) as f64 != v) {
            return Err(bad(format!("has {} at element {at}, a whole number that f32 does not hold", wide[at])));
        }
        Ok(wide.into_iter().map(|v| v as f32).collect())
    }
}

fn each<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    data.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect()
}

/// What a file is that is often given in place of safetensors.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'P', b'K', 3, 4, ..] => Some("a zip archive, as torch.save writes it"),
        [0x80, 2..=5, ..] if bytes.get(8) != Some(&b'{') => Some("a pickle, as old versions of torch.save wrote it"),
        [0x89, b'H', b'D', b'F', ..] => Some("HDF5"),
        _ => None,
    }
}

/// `[64,3,7,7]`
fn dims(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

fn list(names: &[String], what: &str) -> String {
    let told = names.iter().take(TOLD).map(|name| name.escaped()).collect::<Vec<_>>().join(", ");
    match names.len() - names.len().min(TOLD) {
        0 => format!("{what}: {told}"),
        more => format!("{what}: {told}, and {more} more"),
    }
}

/// The name most like this one. Names end with what a tensor is, so ends count double.
fn nearest<'a>(name: &str, others: &[&'a str]) -> Option<&'a str> {
    let end = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let score = |other: &str| {
        let same_end = f64::from(u8::from(end(name) == end(other)));
        strsim::normalized_damerau_levenshtein(name, other) + same_end
    };
    let scored = others.iter().map(|other| (score(other), *other));
    scored.filter(|(score, _)| *score >= 0.6).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use citius_cpu::{Executable, Options};
    use citius_graph::{Graph, Mode};
    use citius_nn::{BatchNorm, Linear, Module, Sequential};

    use super::*;

    /// `0.weight` [2,3], `0.bias` [2], and a batch norm behind them.
    fn memory() -> Memory {
        let g = Graph::with_mode(Mode::Eval);
        let model = Sequential::new().with(Linear::new("0", 3, 2)).with(BatchNorm::new_1d("1", 2));
        g.output("y", &model.forward(&g.input("x", &[1, 3])));
        let mut memory = Memory::new(0);
        Executable::new(citius_plan::compile(&g).unwrap(), &mut memory, Options::default()).unwrap();
        memory
    }

    struct Made(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

    impl Made {
        fn with(mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Made {
            self.0.retain(|t| t.0 != name);
            self.0.push((name.to_owned(), dtype, shape.to_vec(), bytes));
            self
        }

        fn without(mut self, name: &str) -> Made {
            self.0.retain(|t| t.0 != name);
            self
        }

        fn under(self, prefix: &str) -> Made {
            Made(self.0.into_iter().map(|(name, d, s, b)| (format!("{prefix}{name}"), d, s, b)).collect())
        }

        fn read(&self) -> Pretrained {
            let view = |t: &'_ (String, Dtype, Vec<usize>, Vec<u8>)| -> (String, Dtype, Vec<usize>) {
                (t.0.clone(), t.1, t.2.clone())
            };
            let views = self.0.iter().map(|t| {
                let (name, dtype, shape) = view(t);
                (name, TensorView::new(dtype, shape, &t.3).unwrap())
            });
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("w.safetensors");
            let note: Option<HashMap<String, String>> = None;
            std::fs::write(&path, safetensors::serialize(views, note).unwrap()).unwrap();
            Pretrained::read(&path).unwrap()
        }

        fn error(&self) -> String {
            self.read().load(&mut memory()).unwrap_err().to_string()
        }
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    /// As PyTorch saves the network of [`memory`], in many types.
    fn whole() -> Made {
        let halves: Vec<u8> =
            [1.5f32, -2.0, 0.25, 4.0, 5.0, 6.0].iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
        let brains: Vec<u8> = [0.5f32, -1.0].iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
        let doubles: Vec<u8> = [0.1f64, 0.2].iter().flat_map(|v| v.to_le_bytes()).collect();
        Made(Vec::new())
            .with("0.weight", Dtype::F16, &[2, 3], halves)
            .with("0.bias", Dtype::BF16, &[2], brains)
            .with("1.weight", Dtype::F64, &[2], doubles)
            .with("1.bias", Dtype::F32, &[2], f32s(&[1.0, 2.0]))
            .with("1.running_mean", Dtype::F32, &[2], f32s(&[3.0, 4.0]))
            .with("1.running_var", Dtype::F32, &[2], f32s(&[5.0, 6.0]))
            .with("1.num_batches_tracked", Dtype::I64, &[], 7i64.to_le_bytes().to_vec())
    }

    #[test]
    fn every_type_by_name_and_under_a_prefix() {
        for prefix in ["", "module.", "model.backbone."] {
            let mut memory = memory();
            let taken = whole().under(prefix).read().load(&mut memory).unwrap();
            assert_eq!(taken, Taken { tensors: 6, prefix: prefix.to_owned() });
            let values = |name: &str| memory.user_view(name).unwrap();
            assert_eq!(values("0.weight"), (vec![2, 3], vec![1.5, -2.0, 0.25, 4.0, 5.0, 6.0]));
            assert_eq!(values("0.bias").1, [0.5, -1.0]);
            assert_eq!(values("1.weight").1, [0.1, 0.2]);
            assert_eq!(values("1.running_var").1, [5.0, 6.0]);
        }
    }

    #[test]
    fn counters_are_taken_where_something_counts() {
        let g = Graph::new();
        BatchNorm::new_1d("1", 2).forward(&g.input("x", &[4, 2]));
        let mut memory = memory();
        memory.admit(&citius_plan::compile(&g).unwrap()).unwrap();
        whole().read().load(&mut memory).unwrap();
        assert_eq!(memory.get("1.num_batches_tracked"), Some(&[7.0][..]));
        // a file without is as good
        whole().without("1.num_batches_tracked").read().load(&mut memory).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_named_with_both_shapes_and_nothing_is_set() {
        let error = whole().with("0.weight", Dtype::F32, &[4, 3], f32s(&[0.0; 12])).error();
        assert!(error.contains("0.weight is [4,3] there and [2,3] here"), "{error}");
        let error = whole().without("0.bias").with("0.biass", Dtype::F32, &[2], f32s(&[0.0; 2])).error();
        assert!(error.contains("missing from the file: 0.bias [2] (nearest there: 0.biass [2])"), "{error}");
        assert!(error.contains("not in the network: 0.biass [2] (nearest here: 0.bias [2])"), "{error}");
        let many = (0..7).fold(whole(), |made, i| made.with(&format!("zz{i}"), Dtype::F32, &[1], f32s(&[0.0])));
        assert!(many.error().contains("zz3 [1], and 3 more"), "{}", many.error());
        let error = whole().under("module.").with("module.2.weight", Dtype::F32, &[1], f32s(&[0.0])).error();
        assert!(error.contains("names begin with \"module.\"") && error.contains("module.2.weight [1]"), "{error}");

        let mut memory = memory();
        let before = memory.user_view("0.weight");
        assert!(whole().without("1.bias").read().load(&mut memory).is_err());
        assert_eq!(memory.user_view("0.weight"), before);
    }

    #[test]
    fn tensors_may_be_left_out_on_either_side() {
        let made = whole().without("0.bias").with("fc.weight", Dtype::F32, &[1], f32s(&[0.0])).read();
        let how = Matching {
            ignore: Names(vec!["fc.*".into()]),
            fresh: vec!["0.bias".into(), "0.weight".into()],
            ..Matching::default()
        };
        let mut memory = memory();
        let names = memory.tensors();
        let before = memory.user_view("0.weight");
        assert_eq!(made.load_as(&mut memory, &names, &how).unwrap().tensors, 4);
        assert_eq!(memory.user_view("0.weight"), before);
        assert_eq!(memory.user_view("1.bias").unwrap().1, [1.0, 2.0]);
    }

    #[test]
    fn ignored_tensors_stay_as_they_are_whatever_their_shape() {
        let made = whole().with("0.bias", Dtype::F32, &[5], f32s(&[9.0; 5])).read();
        let mut memory = memory();
        let (names, before) = (memory.tensors(), memory.user_view("0.weight"));
        let how = |patterns: &[&str]| Matching {
            ignore: Names(patterns.iter().map(|p| p.to_string()).collect()),
            ..Matching::default()
        };
        assert_eq!(made.load_as(&mut memory, &names, &how(&["0.*"])).unwrap().tensors, 4);
        assert_eq!(memory.user_view("0.weight"), before);
        let idle = made.load_as(&mut memory, &names, &how(&["0.*", "zz.*"])).unwrap_err().to_string();
        assert!(idle.contains("no tensor is called \"zz.*\""), "{idle}");
    }

    #[test]
    fn numbers_that_are_none_or_too_large() {
        let nan = whole().with("0.bias", Dtype::F32, &[2], f32s(&[0.0, f32::NAN])).error();
        assert!(nan.contains("tensor \"0.bias\" has NaN at element 1"), "{nan}");
        let large: Vec<u8> = [1e300f64, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let large = whole().with("0.bias", Dtype::F64, &[2], large).error();
        assert!(large.contains("beyond f32"), "{large}");
        let odd: Vec<u8> = [(1i64 << 24) + 1, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(whole().with("0.bias", Dtype::I64, &[2], odd).error().contains("16777217"));
        let wide = whole().with("0.bias", Dtype::C64, &[2], vec![0; 16]).error();
        assert!(wide.contains("holds C64"), "{wide}");
    }

    #[test]
    fn other_files_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resnet18.pth");
        for (bytes, what) in
            [(&b"PK\x03\x04rest"[..], "torch.save"), (b"\x80\x02ctorch._utils", "pickle"), (b"x", "cut")]
        {
            std::fs::write(&path, bytes).unwrap();
            let message = Pretrained::read(&path).err().unwrap().to_string();
            assert!(message.contains(what) && message.contains("save"), "{message}");
        }
        assert!(Pretrained::read(&folder.path().join("none")).err().unwrap().to_string().contains("no such file"));
    }
}
