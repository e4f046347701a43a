//! Evaluates a graph node by node in f64, each op by its definition. Slow and plain: what executors are held against.

use citius_graph::scalar::Binary;
use citius_graph::{Graph, Leaf, LeafKind, Node, Op, Reduction, Shape, random};

use crate::{Values, recurrence};

pub struct Reference {
    graph: Graph,
    nodes: Vec<Node>,
    seed: u64,
    steps: u64,
    /// Parameters and states, as stored.
    state: Values,
}

impl Reference {
    /// Parameters and states start from their `Init` under `seed`.
    pub fn new(graph: &Graph, seed: u64) -> Reference {
        let nodes = graph.nodes();
        let start = |l: &Leaf| -> Vec<f64> {
            let values = l.init.values(seed, &l.name, &graph.tensor(l.node).shape(), l.part.as_ref());
            values.into_iter().map(f64::from).collect()
        };
        let leaves = graph.leaves();
        let kept = leaves.iter().filter(|l| l.kind != LeafKind::Input);
        let state = kept.map(|l| (l.name.clone(), start(l))).collect();
        Reference { graph: graph.clone(), nodes, seed, steps: 0, state }
    }

    pub fn get(&self, name: &str) -> Option<&[f64]> {
        self.state.get(name).map(|v| v.as_slice())
    }

    pub fn set(&mut self, name: &str, values: &[f64]) -> Result<(), String> {
        let kept = self.state.get_mut(name).ok_or_else(|| format!("no parameter or state \"{name}\""))?;
        if kept.len() != values.len() {
            return Err(format!("\"{name}\" has {} elements, given {}", kept.len(), values.len()));
        }
        kept.copy_from_slice(values);
        Ok(())
    }

    /// One step: evaluates everything, then assigns all updates at once.
    pub fn step(&mut self, inputs: &Values) -> Result<Values, String> {
        let values = self.evaluate(inputs)?;
        let leaves = self.graph.leaves();
        for (leaf, value) in self.graph.updates() {
            let name = &leaves.iter().find(|l| l.node == leaf).ok_or("an update of no leaf")?.name;
            self.state.insert(name.clone(), values[value].clone());
        }
        self.steps += 1;
        Ok(self.outputs(&values))
    }

    /// The outputs of the step that comes next, which is not taken.
    pub fn peek(&self, inputs: &Values) -> Result<Values, String> {
        Ok(self.outputs(&self.evaluate(inputs)?))
    }

    fn outputs(&self, values: &[Vec<f64>]) -> Values {
        self.graph.outputs().into_iter().map(|(name, node)| (name, values[node].clone())).collect()
    }

    fn evaluate(&self, inputs: &Values) -> Result<Vec<Vec<f64>>, String> {
        self.graph.check().map_err(|e| e.to_string())?;
        self.graph.verify()?;
        let leaves = self.graph.leaves();
        let mut values: Vec<Vec<f64>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let value = match &node.op {
                Op::Leaf(i) => {
                    let leaf = &leaves[*i];
                    let from = if leaf.kind == LeafKind::Input { inputs } else { &self.state };
                    from.get(&leaf.name).cloned().ok_or_else(|| format!("no value for \"{}\"", leaf.name))?
                }
                _ => self.compute(node, &values)?,
            };
            if value.len() != node.shape.elements() {
                return Err(format!("{}: {} elements for {}", node.op.name(), value.len(), node.shape));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn compute(&self, node: &Node, values: &[Vec<f64>]) -> Result<Vec<f64>, String> {
        let x = |i: usize| &values[node.inputs[i]];
        let shape = |i: usize| &self.nodes[node.inputs[i]].shape;
        let out = node.shape.elements();
        Ok(match &node.op {
            Op::Leaf(_) => return Err("a leaf has no inputs to compute from".into()),
            Op::Step => vec![self.steps as f64],
            Op::Constant(c) => vec![*c],
            Op::Iota => (0..out).map(|i| i as f64).collect(),
            Op::Random { stream } => {
                let key = random::mix(self.seed ^ random::mix(self.steps));
                (0..out).map(|i| random::uniform(key, *stream as u64, i as u64) as f64).collect()
            }
            Op::Map { def, attrs } => {
                let at = |i: usize| (0..def.arity).map(|k| x(k)[i]).collect::<Vec<_>>();
                (0..out).map(|i| def.eval(&at(i), attrs)).collect()
            }
            Op::Detach | Op::Cast | Op::Reshape | Op::Custom { .. } => x(0).clone(),
            Op::Broadcast => {
                let (strides, from) = (shape(0).strides(), shape(0).dims());
                let extra = node.shape.rank() - from.len();
                let source = |to: &[usize]| -> usize {
                    (0..from.len()).map(|a| if from[a] == 1 { 0 } else { to[extra + a] * strides[a] }).sum()
                };
                indices(&node.shape).map(|to| x(0)[source(&to)]).collect()
            }
            Op::Transpose { perm } => {
                let strides = shape(0).strides();
                let source = |to: &[usize]| -> usize { perm.iter().zip(to).map(|(&p, i)| i * strides[p]).sum() };
                indices(&node.shape).map(|to| x(0)[source(&to)]).collect()
            }
            Op::Slice { axis, start } => {
                let strides = shape(0).strides();
                indices(&node.shape).map(|to| x(0)[flat(&strides, &to) + start * strides[*axis]]).collect()
            }
            Op::Windows { axis, stride, dilation } => {
                let strides = shape(0).strides();
                let source = |mut to: Vec<usize>| {
                    let within = to.remove(axis + 1);
                    to[*axis] = to[*axis] * stride + within * dilation;
                    x(0)[flat(&strides, &to)]
                };
                indices(&node.shape).map(source).collect()
            }
            Op::Join { at, step } => {
                let strides = node.shape.strides();
                let mut result = vec![f64::NAN; out];
                for (part, start) in at.iter().enumerate() {
                    for (value, from) in x(part).iter().zip(indices(shape(part))) {
                        let to: Vec<usize> = (0..from.len()).map(|a| start[a] + from[a] * step[a]).collect();
                        result[flat(&strides, &to)] = *value;
                    }
                }
                result
            }
            Op::Matmul { ta, tb, inner } => {
                let (sa, sb, batch) = (shape(0).strides(), shape(1).strides(), node.shape.rank() - 2);
                // where the row or column begins, and the axes summed over
                let a_axes = if *ta { (batch + inner, batch) } else { (batch, batch + 1) };
                let b_axes = if *tb { (batch, batch + 1) } else { (batch + inner, batch) };
                let sums = Shape::new(&shape(0).dims()[a_axes.1..a_axes.1 + inner]);
                let element = |to: Vec<usize>| -> f64 {
                    let a = flat(&sa[..batch], &to[..batch]) + to[batch] * sa[a_axes.0];
                    let b = flat(&sb[..batch], &to[..batch]) + to[batch + 1] * sb[b_axes.0];
                    let along = |s: &[usize], first: usize, k: &[usize]| flat(&s[first..first + inner], k);
                    indices(&sums)
                        .map(|k| x(0)[a + along(&sa, a_axes.1, &k)] * x(1)[b + along(&sb, b_axes.1, &k)])
                        .sum()
                };
                indices(&node.shape).map(element).collect()
            }
            Op::Reduce { kind, axes } => {
                let (start, fold): (f64, fn(f64, f64) -> f64) = match kind {
                    Reduction::Sum => (0.0, |a, b| a + b),
                    Reduction::Max => (f64::NEG_INFINITY, |a, b| Binary::Max.eval(a, b)),
                };
                let strides = node.shape.strides();
                let mut result = vec![start; out];
                for (value, from) in x(0).iter().zip(indices(shape(0))) {
                    let to: usize =
                        (0..from.len()).map(|a| if axes.contains(&a) { 0 } else { from[a] * strides[a] }).sum();
                    result[to] = fold(result[to], *value);
                }
                result
            }
            Op::ArgMax => {
                let width = shape(0).dims()[shape(0).rank() - 1];
                let first_largest = |row: &[f64]| {
                    let better = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
                    (0..row.len()).fold(0, better) as f64
                };
                x(0).chunks(width).map(first_largest).collect()
            }
            Op::GatherRows => {
                let table = shape(0).dims();
                let width: usize = table[1..].iter().product();
                let mut result = Vec::with_capacity(out);
                for &row in x(1) {
                    let row = row_number(row, table[0])?;
                    result.extend_from_slice(&x(0)[row * width..][..width]);
                }
                result
            }
            Op::Recurrence { scan, .. } => {
                let inputs: Vec<&Vec<f64>> = (0..node.inputs.len()).map(x).collect();
                recurrence::walk(scan, &inputs, shape(0).dims()[0] / scan.steps, node.shape.dims()[1], out)
            }
            Op::RecurrenceGradient { scan, arriving } => {
                let inputs: Vec<&Vec<f64>> = (0..node.inputs.len()).map(x).collect();
                let rows = node.shape.dims()[0] / (scan.steps + 1);
                recurrence::walk_back(scan, arriving, &inputs, rows, shape(1).dims()[0])
            }
            Op::ScatterRows => {
                let table = node.shape.dims();
                let width: usize = table[1..].iter().product();
                let mut result = vec![0.0; out];
                for (i, &row) in x(1).iter().enumerate() {
                    let row = row_number(row, table[0])?;
                    (0..width).for_each(|j| result[row * width + j] += x(0)[i * width + j]);
                }
                result
            }
        })
    }
}

/// All positions of a shape, in row-major order.
fn indices(shape: &Shape) -> impl Iterator<Item = Vec<usize>> {
    (0..shape.elements()).map(|mut i| {
        let mut at = vec![0; shape.rank()];
        for axis in (0..shape.rank()).rev() {
            at[axis] = i % shape.dims()[axis];
            i /= shape.dims()[axis];
        }
        at
    })
}

fn flat(strides: &[usize], at: &[usize]) -> usize {
    strides.iter().zip(at).map(|(s, i)| s * i).sum()
}

fn row_number(row: f64, rows: usize) -> Result<usize, String> {
    match row >= 0.0 && row < rows as f64 {
        true => Ok(row as usize),
        false => Err(format!("row {row} of a table of {rows}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use citius_graph::Init;

    #[test]
    fn updates_are_assigned_together_and_steps_counted() {
        let g = Graph::new();
        let (a, b) = (g.state("a", &[], Init::Constant(1.0)), g.state("b", &[], Init::Constant(2.0)));
        g.assign(&a, &b);
        g.assign(&b, &(&a + g.step()));
        g.output("a", &a);
        let mut r = Reference::new(&g, 0);
        let seen: Vec<f64> = (0..4).map(|_| r.step(&Values::new()).unwrap()["a"][0]).collect();
        assert_eq!(seen, [1.0, 2.0, 1.0, 3.0]); // b: 2, 1+0, 2+1, 1+2
    }

    #[test]
    fn random_numbers_differ_by_step_and_not_by_run() {
        let g = Graph::new();
        g.output("u", &g.random_uniform(&[5]));
        let run = |seed| {
            let mut r = Reference::new(&g, seed);
            [0, 1].map(|_| r.step(&Values::new()).unwrap()["u"].clone())
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert_ne!(run(1)[0], run(1)[1]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let g = Graph::new();
        g.output("y", &g.input("x", &[2]).relu());
        let mut r = Reference::new(&g, 0);
        assert!(r.step(&Values::new()).unwrap_err().contains("\"x\""));
        assert!(r.step(&Values::from([("x".into(), vec![1.0])])).is_err());
        assert!(r.set("w", &[]).is_err());
    }
}
