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
            Op::Detach | Op::Cast | Op::Reshape => x(0).clone(),
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
            Op::Concat { axis } => {
                let strides: Vec<_> = (0..node.inputs.len()).map(|part| shape(part).strides()).collect();
                let pick = |mut at: Vec<usize>| {
                    let mut part = 0;
                    while at[*axis] >= shape(part).dims()[*axis] {
                        at[*axis] -= shape(part).dims()[*axis];
                        part += 1;
                    }
                    x(part)[flat(&strides[part], &at)]
                };
                indices(&node.shape).map(pick).collect()
            }
            Op::Matmul { ta, tb } => {
                let (sa, sb, rank) = (shape(0).strides(), shape(1).strides(), node.shape.rank());
                let inner = shape(0).dims()[if *ta { rank - 2 } else { rank - 1 }];
                let element = |to: Vec<usize>| {
                    let (m, n) = (to[rank - 2], to[rank - 1]);
                    let base = |s: &[usize]| flat(&s[..rank - 2], &to[..rank - 2]);
                    let at = |s: &[usize], row: usize, column: usize, transposed: bool| match transposed {
                        false => row * s[rank - 2] + column * s[rank - 1],
                        true => column * s[rank - 2] + row * s[rank - 1],
                    };
                    let (a, b) = (base(&sa), base(&sb));
                    (0..inner).map(|k| x(0)[a + at(&sa, m, k, *ta)] * x(1)[b + at(&sb, k, n, *tb)]).sum()
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
