//! Graph → [`Plan`]: a flat list of kernel calls over one arena, with FLOPs and bytes known for each.
//!
//! [`compile`] is a list of named passes; executors walk the result.

mod access;
mod compile;
mod cost;
mod draft;
mod dump;
mod fuse;
mod links;
mod lower;
mod materialise;
mod order;
mod padding;
mod place;
mod plan;
mod program;
mod split;
mod verify;

pub use compile::{CompileError, compile, compile_counted};
pub use cost::Cost;
pub use plan::{
    ArgMax, Buffer, BufferId, Call, Deep, Fold, FoldKind, Gather, Loop, Matmul, Nest, Operand, Plan, Random,
    Recurrence, RecurrenceGradient, Scatter, Storage, Work,
};
pub use program::{Instr, Program, SHORT_ROW, Var};
pub use verify::{MOST_OPERANDS, verify};
