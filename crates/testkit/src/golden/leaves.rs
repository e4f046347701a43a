//! PyTorch's tensors and the leaves they are stored in, some of them turned, some in parts.

use std::collections::BTreeMap;

use citius_graph::{Graph, Leaf};

use super::Packed;
use crate::Values;

/// The values of all leaves that `named` covers, as stored. `Err` names a tensor that no leaf holds, or one of another
/// shape.
pub(super) fn stored(g: &Graph, named: &BTreeMap<String, Packed>) -> Result<Values, String> {
    let mut values = Values::new();
    for leaf in g.leaves() {
        let Some(given) = named.get(user_name(&leaf)) else { continue };
        let shape = g.tensor(leaf.node).shape();
        let mut whole = leaf.part.as_ref().map_or(shape.dims().to_vec(), |part| part.whole_dims(&shape));
        let mut data = given.data.clone();
        if let Some(seen) = leaf.seen.as_ref().filter(|seen| seen.dims == given.shape) {
            data = seen.to_stored(&whole, &data);
            whole.clone_from(&seen.dims);
        }
        if whole != given.shape {
            return Err(format!("{} is {whole:?}, PyTorch's {:?}", leaf.name, given.shape));
        }
        if let Some(part) = &leaf.part {
            let mut own = vec![0.0; shape.elements()];
            part.each(&shape, |i, w| own[i] = data[w]);
            data = own;
        }
        values.insert(leaf.name, data);
    }
    match named.keys().find(|name| !g.leaves().iter().any(|l| user_name(l) == *name)) {
        Some(name) => Err(format!("PyTorch has \"{name}\", the graph has not")),
        None => Ok(values),
    }
}

/// The whole tensor `name` as PyTorch has it, from what `of` gives for each leaf it is stored in.
pub(super) fn whole(g: &Graph, name: &str, of: impl Fn(&str) -> Option<Vec<f64>>) -> Result<Vec<f64>, String> {
    let mut result: Vec<f64> = Vec::new();
    let mut turned = None;
    for leaf in g.leaves().iter().filter(|l| user_name(l) == name) {
        let shape = g.tensor(leaf.node).shape();
        let data = of(&leaf.name).ok_or_else(|| format!("nothing for \"{}\"", leaf.name))?;
        let dims = match &leaf.part {
            Some(part) => {
                let dims = part.whole_dims(&shape);
                result.resize(dims.iter().product(), f64::NAN);
                part.each(&shape, |i, w| result[w] = data[i]);
                dims
            }
            None => {
                result = data;
                shape.dims().to_vec()
            }
        };
        turned = leaf.seen.clone().map(|seen| (seen, dims));
    }
    Ok(match turned {
        Some((seen, dims)) => seen.of_stored(&dims, &result),
        None => result,
    })
}

pub(super) fn user_name(leaf: &Leaf) -> &str {
    leaf.part.as_ref().map_or(&leaf.name, |part| &part.whole)
}
