//! The graph as text, one node a line: `%7 = relu %6 : f32 [32,64]  # model.rs:41`.

use std::fmt::{self, Write};

use crate::{Graph, Op};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let inner = self.0.borrow();
        for (id, node) in inner.nodes.iter().enumerate() {
            let mut line = format!("%{id} = {}", node.op.name());
            match &node.op {
                Op::Leaf(i) => write!(line, " {:?} {:?}", inner.leaves[*i].kind, inner.leaves[*i].name)?,
                Op::Constant(c) => write!(line, " {c}")?,
                Op::Random { stream } => write!(line, " stream={stream}")?,
                Op::Map { attrs, .. } if !attrs.is_empty() => write!(line, " {attrs:?}")?,
                Op::Transpose { perm } => write!(line, " {perm:?}")?,
                Op::Slice { axis, start } => write!(line, " axis={axis} start={start}")?,
                Op::Windows { axis, stride, dilation } => {
                    write!(line, " axis={axis} stride={stride} dilation={dilation}")?
                }
                Op::Join { at, step } => write!(line, " at={at:?} step={step:?}")?,
                Op::Matmul { ta, tb, inner: 1 } => write!(line, " ta={ta} tb={tb}")?,
                Op::Matmul { inner, .. } => write!(line, " inner={inner}")?,
                Op::Reduce { axes, .. } => write!(line, " axes={axes:?}")?,
                _ => {}
            }
            for input in &node.inputs {
                write!(line, " %{input}")?;
            }
            write!(line, " : {} {}", node.dtype, node.shape)?;
            let file = node.place.file.rsplit('/').next().unwrap_or(node.place.file);
            writeln!(f, "{line}  # {file}:{}", node.place.line)?;
        }
        for (name, id) in &inner.outputs {
            writeln!(f, "output {name:?} = %{id}")?;
        }
        for (leaf, value) in &inner.updates {
            writeln!(f, "%{leaf} <- %{value}")?;
        }
        Ok(())
    }
}
