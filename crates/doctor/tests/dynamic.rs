//! What steps tell.

use std::time::Duration;

use citius_doctor::selftest::{Data, Folder};
use citius_doctor::{Options, Progress, Severity, examine, try_fixes};
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

#[test]
fn what_takes_too_long_is_left_out_and_says_so() {
    let folder = Folder::new().unwrap();
    let source = folder.draw(Data::Cars, 1).unwrap();
    let settings = "hidden = [16, 16]\nepochs = 20\n[prepare]\nscale = \"none\"";
    let wishes = Wishes { source: Some(source), ..Wishes::parse(settings).unwrap() };
    let mut examination = examine(&wishes, &Options { look: Duration::ZERO, ..Options::default() });
    assert!(examination.evidence.dynamic.is_none());
    let missing = &examination.evidence.missing;
    assert!(missing.iter().any(|what| what.contains("how it learns") && what.contains("--look 1s")), "{missing:?}");
    // what the rows tell is told all the same; a fix cannot be tried
    try_fixes(&mut examination, Duration::from_secs(1), Default::default(), &Progress::default());
    let serious = examination.findings.iter().find(|f| f.severity > Severity::Note).expect("unscaled columns are seen");
    assert!(serious.untried.as_ref().is_some_and(|why| why.contains("not looked at")), "{:?}", serious.untried);
}
