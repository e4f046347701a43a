//! Indented lines.

#[derive(Default)]
pub struct Text {
    lines: String,
    depth: usize,
}

impl Text {
    pub fn line(&mut self, line: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.lines.push_str("    ");
        }
        self.lines.push_str(line.as_ref());
        self.lines.push('\n');
    }

    /// `head {`, what `body` writes, `}`.
    pub fn block(&mut self, head: impl AsRef<str>, body: impl FnOnce(&mut Text)) {
        self.line(format!("{} {{", head.as_ref()).trim_start());
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    pub fn into_string(self) -> String {
        self.lines
    }
}
