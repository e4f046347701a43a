//! A part of the self-test, small enough for every change: what is put in is told, and what is clean raises no alarm.

use citius_doctor::selftest::SelfTest;

#[test]
fn most_faults_are_told_and_clean_programs_raise_no_alarm() {
    let outcome = SelfTest::reduced().run(&|seen| println!("{seen}")).unwrap();
    println!("{outcome}");
    let all = outcome.counted();
    // the whole suite asks for .90; a short look may miss some
    assert!(all.recall >= 0.75 && all.precision >= 0.75, "{all:?}");
    assert_eq!(outcome.false_alarms(), 0);
}
