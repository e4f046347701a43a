//! Weights of others in a safetensors file.

use citius_cpu::Memory;
use citius_graph::{Graph, Init};
use citius_train::Pretrained;

use crate::{Draw, with_file};

pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let bytes = if draw.flag() { with_header(draw) } else { draw.rest().to_vec() };
    with_file("w.safetensors", &bytes, |path| {
        let Ok(file) = Pretrained::read(path) else { return };
        for name in file.shapes().keys() {
            let _ = file.tensor(name);
        }
        let g = Graph::new();
        for (name, shape) in [("0.weight", &[3usize, 2][..]), ("0.bias", &[3])] {
            g.output(name, &g.parameter(name, shape, Init::Zeros));
        }
        let mut memory = Memory::new(0);
        memory.admit(&citius_plan::compile(&g).expect("a plan")).expect("little memory");
        let _ = file.load(&mut memory);
    });
}

/// A header of the right length before its numbers.
fn with_header(mut draw: Draw<'_>) -> Vec<u8> {
    let length = draw.short() as usize;
    let header = draw.take(length);
    [&(header.len() as u64).to_le_bytes(), header, draw.rest()].concat()
}
