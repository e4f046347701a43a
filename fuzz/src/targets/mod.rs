//! The targets. A file each, and a line in the list, from which libFuzzer's binary and the short round in the tests choose.

mod arrow;
mod checkpoint;
mod cifar;
mod csv_blocks;
mod delimited;
mod encoding;
mod exif;
mod idx;
mod json_lines;
mod model;
mod npy;
mod npz;
mod packed;
mod packed_flip;
mod parquet;
mod picture_decode;
mod row_file;
mod safetensors;
mod series;
mod settings;
mod text;
mod zstd;

/// Something that is fed with bytes. It panics where an answer is false.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Mutated inputs that the short round makes of each seed.
    pub mutations: usize,
}

/// The list, and a test of each.
macro_rules! targets {
    ($($name:ident: $mutations:literal,)*) => {
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run, mutations: $mutations }),*];

        #[cfg(test)]
        mod short_round {
            $(
                #[test]
                fn $name() {
                    crate::short_round(stringify!($name));
                }
            )*
        }
    };
}

targets! {
    arrow: 3000,
    checkpoint: 200,
    cifar: 500,
    csv_blocks: 1500,
    delimited: 4000,
    encoding: 1000,
    exif: 4000,
    idx: 1000,
    json_lines: 2000,
    model: 300,
    npy: 4000,
    npz: 4000,
    packed: 4000,
    packed_flip: 1000,
    parquet: 3000,
    picture_decode: 3000,
    row_file: 4000,
    safetensors: 4000,
    series: 4000,
    settings: 1500,
    text: 2000,
    zstd: 4000,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_target() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/targets");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.retain(|name| name != "mod");
        names.sort();
        assert!(names.iter().map(String::as_str).eq(TARGETS.iter().map(|target| target.name)), "{names:?}");
    }
}
