//! What steps tell.

use citius_doctor::selftest::{Data, Folder};
use citius_doctor::{Options, examine};
use citius_train::Wishes;

/// It begins with a 25th of the rate and ends with none.
#[test]
fn updates_are_seen_where_the_schedule_has_its_largest_rate() {
    let folder = Folder::new().unwrap();
    let source = folder.draw(Data::Cars, 1).unwrap();
    let settings = "hidden = [16, 16]\noptimizer = \"adam\"\nlr = 1e-3\nschedule = \"one-cycle\"\nepochs = 20";
    let wishes = Wishes { source: Some(source), ..Wishes::parse(settings).unwrap() };
    let dynamic = examine(&wishes, &Options::default()).evidence.dynamic.unwrap();
    for layer in dynamic.runs.iter().flat_map(|run| &run.layers) {
        let ends = layer.update.max(layer.late_update);
        assert!(layer.most_update > 3.0 * ends, "{}: {} against {ends}", layer.name, layer.most_update);
    }
}
