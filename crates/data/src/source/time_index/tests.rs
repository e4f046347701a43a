use super::*;
use crate::table::ReadOptions;

fn read(text: &str) -> Table {
    Table::from_bytes("s.csv", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn timed(text: &str) -> TimedRows {
    TimedRows::new(read(text), None, 3).unwrap()
}

fn wrong(text: &str, named: Option<&str>) -> String {
    TimedRows::new(read(text), named, 3).unwrap_err().to_string()
}

fn column(series: &TimedRows, name: &str) -> Vec<f64> {
    let Values::Number(values) = &series.table.columns[series.table.column(name).unwrap()].values else { panic!() };
    values.clone()
}

fn csv(times: impl IntoIterator<Item = String>) -> String {
    let lines = times.into_iter().enumerate().map(|(row, time)| format!("{time},{row}\n"));
    format!("when,a\n{}", lines.collect::<String>())
}

fn described(text: &str) -> String {
    let index = timed(text).index.unwrap();
    index.step.map_or("irregular".to_owned(), |step| step.described(&index.format))
}

#[test]
fn shuffled_rows_are_sorted() {
    let order = [3, 0, 4, 1, 2, 5];
    let text = csv(order.iter().map(|hour| format!("2024-03-01 {hour:02}:00")));
    let series = timed(&text);
    assert_eq!(column(&series, "a"), [1.0, 3.0, 4.0, 0.0, 2.0, 5.0]);
    assert_eq!(series.remarks, ["sorted: 3 rows stood behind a later one"]);
    assert_eq!(series.written(0).unwrap(), "2024-03-01 00:00");
    assert_eq!(series.written(7).unwrap(), "2024-03-01 07:00", "two steps behind the last");
    // newest first
    let text =
        csv((0..50).rev().map(|day| format!("{}/1/2024", day % 12 + 1).replace("/1/", &format!("/{}/", day / 12 + 1))));
    assert_eq!(column(&timed(&text), "a").len(), 50);
}

#[test]
fn steps_are_those_of_the_calendar() {
    let hours = (0..40).map(|i| format!("2024-03-{:02} {:02}:00", i / 24 + 1, i % 24));
    assert_eq!(described(&csv(hours)), "every hour");
    let quarters = (0..40).map(|i| format!("2024-03-01T{:02}:{:02}:00Z", i / 4, i % 4 * 15));
    assert_eq!(described(&csv(quarters)), "every 15 minutes");
    let months = |day: &dyn Fn(i64, u32) -> u32| {
        let of = |i: i64| (2020 + i / 12, i as u32 % 12 + 1);
        csv((0..30).map(of).map(|(year, month)| format!("{year}-{month:02}-{:02}", day(year, month))))
    };
    assert_eq!(described(&months(&|_, _| 1)), "every month");
    let ends = months(&|year, month| crate::table::days_in_month(year, month));
    assert_eq!(described(&ends), "every month, on the last day");
    let series = timed(&ends);
    assert_eq!(
        [29, 30, 31, 32].map(|row| series.written(row).unwrap()),
        ["2022-06-30", "2022-07-31", "2022-08-31", "2022-09-30"]
    );
    let years = csv((0..9).map(|i| format!("{}-07-01", 1990 + i)));
    assert_eq!((described(&years), timed(&years).written(9).unwrap()), ("every year".into(), "1999-07-01".into()));
    // 1 January 2024 is a Monday
    let business = (0..26).filter(|day| day % 7 < 5).map(|day| format!("{:02}.01.2024", day + 1));
    let business = csv(business);
    assert_eq!(described(&business), "every business day");
    let series = timed(&business);
    assert_eq!(
        [18, 19, 20, 24].map(|row| series.written(row).unwrap()),
        ["25.01.2024", "26.01.2024", "29.01.2024", "02.02.2024"]
    );
    let jitter = (0..60).map(|i| format!("2024-03-01 {:02}:{:02}:{:02}", i * 5 / 60, i * 5 % 60, i * 7 % 11));
    assert_eq!(described(&csv(jitter)), "every 5 minutes");
    let irregular = [0, 1, 5, 7, 26, 27, 90, 91, 117].map(|i| format!("2024-{:02}-{:02}", i / 28 + 1, i % 28 + 1));
    assert_eq!(described(&csv(irregular)), "irregular");
}

#[test]
fn short_gaps_get_rows_and_long_ones_break() {
    let hours = (0..60).filter(|hour| ![5, 6].contains(hour) && !(20..40).contains(hour));
    let series = timed(&csv(hours.map(|i| format!("2024-03-{:02} {:02}:00", i / 24 + 1, i % 24))));
    assert_eq!((series.table.rows, &series.breaks[..]), (40, &[20][..]));
    let values = column(&series, "a");
    assert!(values[5].is_nan() && values[6].is_nan() && values[7] == 5.0);
    assert_eq!(series.written(6).unwrap(), "2024-03-01 06:00");
    let told = "2 gaps between rows, 2 rows filled in, 1 too long to fill: no window crosses it; the longest of 20 steps behind \
                2024-03-01 19:00";
    assert_eq!(series.remarks, [told]);
    // summer time begins: an hour is missing on the clock, and filled
    let hours = ["00:00", "01:00", "03:00", "04:00", "05:00", "06:00"].map(|clock| format!("2024-03-31 {clock}"));
    assert_eq!(timed(&csv(hours)).table.rows, 7);
}

#[test]
fn rows_of_one_time_are_joined_unless_they_are_many() {
    let hours =
        (0..40).map(|i| format!("2024-03-01 {:02}:{:02}", i / 2, i % 2 * 30)).chain(["2024-03-01 00:30".into()]);
    let series = timed(&csv(hours));
    assert_eq!((series.table.rows, column(&series, "a")[1]), (40, 20.5));
    assert!(series.remarks.contains(&"averaged: 1 row with the time of another".to_owned()));
    let stores = |order: [usize; 4]| csv(order.map(|day| format!("2024-03-{:02}", day + 1)));
    let error = wrong(&stores([0, 1, 0, 1]), None);
    assert!(error.contains("row 3, column \"when\"") && error.contains("row 1 has the same time"), "{error}");
    assert!(error.contains("--time none"), "{error}");
    let shared = timed(&stores([0, 0, 1, 1]));
    assert!(shared.index.is_none() && shared.remarks[0].contains("many rows share a value of \"when\""));
    assert!(wrong(&stores([0, 0, 1, 1]), Some("when")).contains("several series"));
}

#[test]
fn columns_are_found_by_dates_or_by_name() {
    let none = timed("a,b\n1,2\n3,4\n2,5\n");
    assert_eq!((none.index, column(&timed("a,b\n1,2\n3,4\n2,5\n"), "a")), (None, vec![1.0, 3.0, 2.0]));
    assert!(none.remarks[0].starts_with("no column holds dates"));
    let numbers = timed("timestamp,a\n30,1\n10,2\n20,3\n40,4\n");
    assert_eq!((column(&numbers, "a"), numbers.written(5).unwrap()), (vec![2.0, 3.0, 1.0, 4.0], "60".to_owned()));
    let compact = timed("date,a\n20240131,1\n20240129,2\n20240130,3\n");
    assert_eq!((column(&compact, "a"), compact.written(3).unwrap()), (vec![2.0, 3.0, 1.0], "20240201".to_owned()));
    let shared = timed("year,a\n2001,1\n2000,2\n2001,3\n2000,4\n");
    assert!(shared.index.is_none(), "a year that rows share orders nothing");
    let named = TimedRows::new(read("n,a\n3,1\n1,2\n2,3\n"), Some("n"), 3).unwrap();
    assert_eq!(column(&named, "a"), [2.0, 3.0, 1.0]);
    let none = TimedRows::new(read("when,a\n2024-01-02,1\n2024-01-01,2\n"), Some("none"), 3).unwrap();
    assert_eq!((column(&none, "a"), none.remarks.len()), (vec![1.0, 2.0], 0));
    assert!(wrong("a,b\n1,2\n", Some("c")).contains("no column \"c\""));
}

#[test]
fn day_and_month_are_told_apart_by_the_steps() {
    // the 1st to the 9th of April, or the 4th of nine months
    let april = (1..=9).map(|day| format!("{day:02}/04/2024"));
    assert_eq!(described(&csv(april)), "every day");
    // the first of twenty months, or January days of two years
    let months = (0..20).map(|i| format!("01/{:02}/{}", i % 12 + 1, 2023 + i / 12));
    assert_eq!(described(&csv(months)), "every month");
}

#[test]
fn cells_that_are_no_time_are_told() {
    let error = wrong("when,a\n2024-01-01,1\n2024-01-02,2\nsoon,3\n2024-01-04,4\n", None);
    assert!(error.contains("row 3, column \"when\"") && error.contains("\"soon\" is not a time"), "{error}");
    assert!(wrong("when,a\n2024-01-01,1\n03.02.2024,2\n2024-02-04,2\n", None).contains("written in several ways"));
    assert!(wrong("when,a\nx,1\ny,2\n", Some("when")).contains("\"x\" is not a time"));
    let series = timed("when,a\n2024-01-03,1\n,9\n2024-01-02,2\n2024-01-01,3\n");
    assert_eq!(column(&series, "a"), [3.0, 2.0, 1.0]);
    assert_eq!(series.remarks[0], "left out: 1 row without a value of \"when\"");
}

#[test]
fn further_rows_keep_the_step_however_they_are_written() {
    let known = timed(&csv((1..9).map(|day| format!("2024-01-{day:02}")))).index.unwrap();
    let like = |text: &str| TimedRows::like(read(text), Some(&known), 3);
    let other = like("when,a\n11.02.2024,1\n10.02.2024,2\n").unwrap();
    assert_eq!((column(&other, "a"), other.written(2).unwrap()), (vec![2.0, 1.0], "12.02.2024".to_owned()));
    let error = like(&csv((0..9).map(|hour| format!("2024-01-01 {hour:02}:00")))).unwrap_err().to_string();
    assert!(error.contains("a row every hour, the model was trained on rows every day"), "{error}");
    let error = like("a\n1\n").unwrap_err().to_string();
    assert!(error.contains("the column \"when\", which says when each row was"), "{error}");
    let text = serde_json::to_string(&known).unwrap();
    assert_eq!(serde_json::from_str::<TimeIndex>(&text).unwrap(), known);
}
