//! Transforms of training pictures, as `--augment` and settings files ask for them.

mod common;

use common::{Folder, houses, pets};

/// Losses differ where the training pictures did.
fn losses(folder: &Folder, words: &str) -> String {
    let report: serde_json::Value = serde_json::from_str(folder.works(words).out.trim()).unwrap();
    report["epoch_losses"].to_string()
}

#[test]
fn each_transform_works_on_a_folder_of_pictures_and_does_something() {
    let folder = Folder::new();
    pets(&folder);
    let train = "train pets --size 20 --model lenet --epochs 2 --json --force --out o --seed 1";
    let plain = losses(&folder, &format!("{train} --augment none"));
    for augment in [
        "random-erasing",
        "random-erasing=0.9",
        "horizontal-flip",
        "vertical-flip",
        "random-crop=2",
        "rotation=30",
        "random-crop=2,horizontal-flip,random-erasing",
        "random-erasing,horizontal-flip",
    ] {
        assert_ne!(losses(&folder, &format!("{train} --augment {augment}")), plain, "{augment}");
    }
    for settings in [
        r#"[{ name = "color-jitter", brightness = 0.5 }]"#,
        r#"[{ name = "affine", degrees = 20 }, { name = "random-erasing" }]"#,
        r#"[{ name = "random-resized-crop", size = 20 }, { name = "horizontal-flip" }, { name = "random-erasing" }]"#,
        r#"[{ name = "centre-crop", size = 5 }]"#,
    ] {
        folder.write("s.toml", format!("augment = {settings}"));
        assert_ne!(losses(&folder, &format!("{train} --config s.toml")), plain, "{settings}");
    }
}

#[test]
fn a_transform_that_changes_nothing_is_refused_with_the_setting_it_lacks() {
    let folder = Folder::new();
    pets(&folder);
    for (augment, lacks) in [
        ("color-jitter", "brightness, contrast, saturation or hue"),
        ("affine", "degrees, translate, scale or shear"),
        ("random-crop=0", "padding"),
        ("rotation=0", "degrees"),
        ("horizontal-flip,random-erasing=0", "probability"),
    ] {
        let said = folder.fails(2, &format!("train pets --augment {augment} --epochs 1 --out o"));
        assert!(said.contains("changes nothing unless it is given") && said.contains(lacks), "{augment}: {said}");
    }
    let said = folder.fails(2, "train --augment affine --epochs 1 --out o");
    assert!(said.contains("affine changes nothing"), "{said}");
}

#[test]
fn packed_pictures_are_augmented_and_other_packed_rows_refuse_it() {
    let folder = Folder::new();
    pets(&folder);
    folder.write("houses.csv", houses());
    folder.works("data pack pets pets.citius --size 12");
    folder.works("data pack houses.csv houses.citius");
    let train = "train pets.citius --epochs 2 --json --force --out o --seed 1";
    let plain = losses(&folder, train);
    for augment in ["horizontal-flip", "rotation=30"] {
        assert_ne!(losses(&folder, &format!("{train} --augment {augment}")), plain, "{augment}");
    }
    let said = folder.fails(2, "train houses.citius --epochs 1 --augment rotation=30 --out o2");
    assert!(said.contains("augment is for pictures, and houses.citius holds none"), "{said}");
}
