//! Device functions, each written once: fibres that differ only in their buffers share one, which is told where they are.
//! The strips of a layer are such fibres, and compiling is what a cold start waits for.

use super::REGIONS;
use super::text::Text;

const UNIT: &str = "const unsigned s, const int unit, float* shared";

pub struct Functions {
    bodies: Vec<Body>,
    /// Whether fibres may share a function: not where the compiler should know the addresses.
    share: bool,
}

struct Body {
    /// As emitted, naming the plan's buffers.
    text: String,
    /// With `p0`, `p1` … in their place, without comments.
    general: String,
    buffers: Vec<String>,
}

/// How to call the function of a fibre.
pub struct Function {
    name: String,
    buffers: Vec<String>,
}

impl Function {
    pub fn call(&self, unit: &str) -> String {
        let buffers: String = self.buffers.iter().map(|b| format!(", {b}")).collect();
        format!("{}(args, scratch, leaves, fed, results, s, {unit}, shared{buffers});", self.name)
    }
}

impl Functions {
    pub fn new(share: bool) -> Functions {
        Functions { bodies: Vec::new(), share }
    }

    pub fn add(&mut self, text: String) {
        let (general, buffers) = generalise(&text);
        self.bodies.push(Body { text, general, buffers });
    }

    /// Writes them, and returns how each is called, in the order they were added. `inline`: each is called in one place.
    pub fn write(&self, text: &mut Text, inline: bool) -> Vec<Function> {
        let inline = if inline { "__forceinline__" } else { "__noinline__" };
        let mut calls = Vec::new();
        for (i, body) in self.bodies.iter().enumerate() {
            let twin = |other: &Body| self.share && other.general == body.general;
            let twins = self.bodies.iter().filter(|b| twin(b)).count();
            let first = self.bodies.iter().position(twin).unwrap_or(i);
            let name = format!("fibre{first}");
            let shared = twins > 1;
            if first == i {
                let parameters: String = match shared {
                    true => (0..body.buffers.len()).map(|n| format!(", char* p{n}")).collect(),
                    false => String::new(),
                };
                text.line("");
                text.line(format!("static __device__ {inline} void {name}({REGIONS}, {UNIT}{parameters})"));
                text.line(if shared { &body.general } else { &body.text });
            }
            calls.push(Function { name, buffers: if shared { body.buffers.clone() } else { Vec::new() } });
        }
        calls
    }
}

/// Replaces the names of buffers by those of parameters, numbered as they come.
fn generalise(text: &str) -> (String, Vec<String>) {
    let mut buffers: Vec<String> = Vec::new();
    let mut general = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if is_buffer(&word) {
                let n = buffers.iter().position(|b| *b == word).unwrap_or_else(|| {
                    buffers.push(word.clone());
                    buffers.len() - 1
                });
                general.push_str(&format!("p{n}"));
            } else {
                general.push_str(&word);
            }
            word.clear();
            general.push(c);
        }
    }
    (general, buffers)
}

fn is_buffer(word: &str) -> bool {
    let numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    word.strip_prefix("mem").is_some_and(numbered) || word.strip_prefix("part").is_some_and(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_written_once() {
        let mut functions = Functions::new(true);
        functions.add("{\n  // first\n  f32(mem1)[e] = f32(mem20)[e] + f32(mem1)[0];\n}".into());
        functions.add("{\n  f32(mem3)[e] = f32(part4_0)[e] + f32(mem3)[0];\n}".into());
        functions.add("{\n  f32(mem3)[e] = f32(mem3)[e] + f32(mem4)[0];\n}".into());
        let mut text = Text::default();
        let calls = functions.write(&mut text, false);
        assert_eq!(calls[0].call("u"), "fibre0(args, scratch, leaves, fed, results, s, u, shared, mem1, mem20);");
        assert_eq!(calls[1].call("u"), "fibre0(args, scratch, leaves, fed, results, s, u, shared, mem3, part4_0);");
        assert_eq!(calls[2].call("0"), "fibre2(args, scratch, leaves, fed, results, s, 0, shared);");
        let text = text.into_string();
        assert_eq!(text.matches("__noinline__").count(), 2);
        assert!(text.contains("f32(p0)[e] = f32(p1)[e] + f32(p0)[0];"), "{text}");
    }
}
