//! Timed steps: the same bits, every call accounted for, spans that follow each other.

#[allow(dead_code)]
mod common;

use citius_cpu::{Doing, Executable, Memory, Options, Timing};
use common::{Feeder, Training, digits, regress, table};

fn run(training: &Training, threads: usize, timing: Timing, steps: u64) -> (Executable, Vec<Vec<f32>>) {
    let mut memory = Memory::new(7);
    let options = Options { threads, timing, ..Options::default() };
    let mut executable = Executable::new(training.plan.clone(), &mut memory, options).unwrap();
    // in pieces, as epochs are
    for n in 0..4 {
        let each = steps / 4;
        executable.run(&mut memory, &training.inputs(), n * each, each, &mut Feeder(|_| {})).unwrap();
    }
    let weights = memory.tensors().iter().map(|name| memory.user_view(name).unwrap().1).collect();
    (executable, weights)
}

#[test]
fn timing_changes_no_bit_and_misses_no_call() {
    for training in [regress(0.1), table(0.0), digits(0.0)] {
        for threads in [1, 2, 3] {
            let (mut untimed, expected) = run(&training, threads, Timing::Never, 40);
            let (mut timed, weights) = run(&training, threads, Timing::Every { spans: 100_000 }, 40);
            assert!(weights == expected, "{} on {threads} threads", training.name);
            let (never, times) = (untimed.times(), timed.times());
            assert_eq!((never.steps, never.timed), (40, 0));
            assert_eq!((times.steps, times.timed, times.threads), (40, 40, threads));
            assert_eq!(times.calls.len(), training.plan.calls.len());
            assert!(times.parts.iter().all(|part| part.mean >= 0.0 && part.error >= 0.0));
            let [p50, p90, p99] = times.quantiles;
            assert!(0.0 < p50 && p50 <= p90 && p90 <= p99, "{:?}", times.quantiles);

            let spans = timed.spans();
            for thread in 0..threads {
                let own: Vec<_> = spans.iter().filter(|s| s.thread == thread).collect();
                assert!(own.iter().all(|s| s.start <= s.end));
                assert!(own.windows(2).all(|w| w[0].end <= w[1].start && w[0].step <= w[1].step), "in order");
            }
            for step in 0..40 {
                for call in 0..training.plan.calls.len() {
                    let runs = |s: &&citius_cpu::Span| s.step == step && s.doing == Doing::Call(call);
                    assert!(spans.iter().any(|s| runs(&s)), "step {step} of {}, call {call}", training.name);
                }
            }
            timed.reset_times();
            assert_eq!((timed.times().steps, timed.spans().len()), (0, 0));
        }
    }
}

#[test]
fn few_steps_stand_for_all() {
    let (mut executable, _) = run(&regress(0.0), 1, Timing::Sampled, 4000);
    let times = executable.times();
    assert_eq!(times.steps, 4000);
    assert!(times.timed > 0 && times.timed < 1000, "{}", times.timed);
    // epochs of a few steps are not all missed
    let mut memory = Memory::new(7);
    let training = regress(0.0);
    let mut short = Executable::new(training.plan.clone(), &mut memory, Options::default()).unwrap();
    for epoch in 0..200 {
        short.run(&mut memory, &training.inputs(), 5 * epoch, 5, &mut Feeder(|_| {})).unwrap();
    }
    assert!(short.times().timed > 0);
}

/// At no moment is nothing known: not when the number of threads has just been found, nor when it is looked at again.
#[test]
fn what_was_timed_counts_until_more_is() {
    let (mut memory, training) = (Memory::new(7), regress(0.0));
    let mut executable = Executable::new(training.plan.clone(), &mut memory, Options::default()).unwrap();
    for run in 0..600 {
        executable.run(&mut memory, &training.inputs(), 8 * run, 8, &mut Feeder(|_| {})).unwrap();
        let times = executable.times();
        assert!(times.timed > 0 && times.timed <= times.steps, "after {} steps", times.steps);
    }
}
