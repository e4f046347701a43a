//! What is in a folder or list of pictures, told from some of them decoded.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use super::column::{Label, combined, share, summarise};
use super::figures::{count, percent, plural};
use super::{Inspection, warnings};
use crate::picture::{Channels, Picture, Pictures};
use crate::prepare::correlation::spread;
use crate::table::{Column, Values};

/// Unreadable pictures named one by one.
const MOST_NAMED: usize = 8;

/// Counts all pictures and decodes up to `most` of them, evenly spread, on all cores.
pub fn pictures(pictures: &dyn Pictures, most: usize) -> Inspection {
    let chosen: Vec<usize> = spread(pictures.len(), most).collect();
    let looks = look_at(pictures, &chosen);
    let (seen, unreadable): (Vec<_>, Vec<_>) = looks.into_iter().partition(Result::is_ok);
    let seen: Vec<Look> = seen.into_iter().flatten().collect();
    let unreadable: Vec<String> = unreadable.into_iter().filter_map(Result::err).collect();

    let number = |name: &str, value: fn(&Look) -> f64| {
        summarise(&Column { name: name.to_owned(), values: Values::Number(seen.iter().map(value).collect()) }).0
    };
    let text = |name: &str, value: fn(&Look) -> &'static str| {
        let mut labels: Vec<&str> = seen.iter().map(value).collect();
        labels.sort_unstable();
        labels.dedup();
        let code = |look| labels.iter().position(|label| *label == value(look)).unwrap_or(0) as u32;
        let codes = seen.iter().map(code).collect();
        let labels = labels.iter().map(|label| label.to_string()).collect();
        summarise(&Column { name: name.to_owned(), values: Values::Text { codes, labels } }).0
    };
    let columns = match seen.is_empty() {
        true => Vec::new(),
        false => vec![
            number("width", |look| look.width as f64),
            number("height", |look| look.height as f64),
            number("kilobytes", |look| look.bytes as f64 / 1000.0),
            text("format", |look| look.format),
            text("colours", |look| look.colours),
        ],
    };
    let mut hashes: Vec<u64> = seen.iter().map(|look| look.hash).collect();
    hashes.sort_unstable();
    let repeated_rows = hashes.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let classes = classes(pictures);
    let mut warnings = warnings_of(&classes, &unreadable, repeated_rows, chosen.len());
    warnings.extend(pictures.notes());
    Inspection {
        name: pictures.name().to_owned(),
        unit: "picture",
        rows: pictures.len(),
        rows_read: chosen.len(),
        target: None,
        schema: Some(plural(classes.len(), "class")),
        columns,
        classes,
        repeated_rows,
        with_target: Vec::new(),
        between: Vec::new(),
        relations_note: None,
        warnings,
    }
}

/// What one picture is.
struct Look {
    width: usize,
    height: usize,
    bytes: usize,
    format: &'static str,
    colours: &'static str,
    hash: u64,
}

/// One look per chosen picture, in order; for an unreadable one its path and what is wrong.
fn look_at(pictures: &dyn Pictures, chosen: &[usize]) -> Vec<Result<Look, String>> {
    let next = AtomicUsize::new(0);
    let looks: Mutex<Vec<Option<Result<Look, String>>>> = Mutex::new(chosen.iter().map(|_| None).collect());
    let work = || {
        let (mut file, mut picture) = (Vec::new(), Picture::default());
        while let Some((place, i)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            chosen.get(place).map(|i| (place, *i))
        } {
            file.clear();
            let look = match pictures.load_into(i, Channels::AsIs, &mut file, &mut picture) {
                Ok(()) => Ok(Look::of(&file, &picture)),
                Err(error) => Err(error.to_string()),
            };
            looks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[place] = Some(look);
        }
    };
    let threads = available_parallelism().map_or(1, |n| n.get()).min(chosen.len()).max(1);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    looks.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).into_iter().flatten().collect()
}

impl Look {
    fn of(file: &[u8], picture: &Picture) -> Look {
        Look {
            width: picture.width,
            height: picture.height,
            bytes: file.len(),
            format: match file {
                [0xff, 0xd8, ..] => "JPEG",
                [0x89, b'P', ..] => "PNG",
                [b'R', b'I', ..] => "WebP",
                _ => "none",
            },
            colours: if picture.channels == 1 { "grey" } else { "RGB" },
            hash: picture.pixels.iter().fold(picture.width as u64, |hash, byte| combined(hash, *byte as u64)),
        }
    }
}

fn classes(pictures: &dyn Pictures) -> Vec<Label> {
    let mut counts = vec![0usize; pictures.labels().len()];
    for i in 0..pictures.len() {
        if let Some(count) = counts.get_mut(pictures.label(i) as usize) {
            *count += 1;
        }
    }
    let named = pictures.labels().iter().zip(counts);
    named.map(|(label, rows)| Label { label: label.clone(), rows, share: share(rows, pictures.len()) }).collect()
}

fn warnings_of(classes: &[Label], unreadable: &[String], repeated: usize, read: usize) -> Vec<String> {
    let mut warnings: Vec<String> =
        unreadable.iter().take(MOST_NAMED).map(|problem| format!("cannot be read: {problem}")).collect();
    if unreadable.len() > MOST_NAMED {
        warnings.push(format!("… and {} more that cannot be read", count(unreadable.len() - MOST_NAMED)));
    }
    warnings.extend(warnings::of_classes(classes));
    if repeated > 0 {
        let share = percent(share(repeated, read));
        warnings.push(format!(
            "{} ({share}) with the pixels of an earlier one; a split may put the same on both sides",
            plural(repeated, "picture")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::PictureFolder;
    use std::fs;

    fn png(side: u32, colour: bool, value: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut bytes, side, side);
        encoder.set_color(if colour { ::png::ColorType::Rgb } else { ::png::ColorType::Grayscale });
        let pixels = vec![value; (side * side) as usize * if colour { 3 } else { 1 }];
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        bytes
    }

    #[test]
    fn sizes_colours_and_what_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: Vec<u8>| {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), bytes).unwrap();
        };
        write("cat/1.png", png(4, true, 9));
        write("cat/2.png", png(8, false, 9));
        write("cat/3.png", png(4, true, 9));
        write("dog/1.png", png(6, true, 7));
        write("dog/2.png", b"no".to_vec());
        let folder = PictureFolder::open(dir.path()).unwrap();
        let inspection = pictures(&folder, 1000);
        let width = inspection.columns[0].numbers.as_ref().unwrap();
        assert_eq!((width.min, width.median, width.max), (4.0, 5.0, 8.0));
        let colours: Vec<(&str, usize)> =
            inspection.columns[4].labels.iter().map(|label| (&label.label[..], label.rows)).collect();
        assert_eq!(colours, [("RGB", 3), ("grey", 1)]);
        assert_eq!((inspection.classes[0].rows, inspection.repeated_rows), (3, 1));
        let text = inspection.to_string();
        assert!(text.contains("5 pictures, 2 classes"), "{text}");
        assert!(text.contains("cannot be read: ") && text.contains("not a picture"), "{text}");
        assert_eq!(pictures(&folder, 2).rows_read, 2);
    }
}
