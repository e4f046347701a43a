//! Data of the self-test, drawn by it: the same for a seed on every machine.

use std::f64::consts::PI;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use citius_data::{SplitMix64, digits};

/// A folder of files that goes when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> std::io::Result<Folder> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("citius-selftest-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file or directory of this name, drawn with this seed.
    pub fn draw(&self, data: Data, seed: u64) -> std::io::Result<PathBuf> {
        let path = self.0.join(format!("{data:?}-{seed}"));
        if data == Data::Digits {
            if !path.is_dir() {
                fs::create_dir_all(&path)?;
                write_digits(&path, seed)?;
            }
            return Ok(path);
        }
        let path = path.with_extension("csv");
        if !path.is_file() {
            fs::write(&path, table(data, seed))?;
        }
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What there is to learn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// 392 cars: nine features of very different scales that go together, miles per gallon.
    Cars,
    /// The same, predicting a price of thousands.
    Prices,
    /// The same, with a column that knows the answer.
    CarsLeaking,
    /// The same, with displacement in three units, rounded.
    CarsDoubled,
    /// The same, every row four times.
    CarsRepeated,
    /// The same, with nearly one and the same column six times.
    CarsAlike,
    /// 900 rows, three classes with curved borders.
    Classes,
    /// Two classes that overlap, one row of 25 in the second.
    Rare,
    /// One of 80.
    Rarer,
    /// 120 rows of 30 features that tell little.
    Few,
    /// A sine over five periods, 1000 rows.
    Sine,
    /// Demand and temperature in the order of time.
    Series,
    /// Digits as MNIST's files, 1500 and 300.
    Digits,
}

struct Draw(SplitMix64);

impl Draw {
    /// From 0 to 1.
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().max(1e-300).ln()).sqrt() * (2.0 * PI * self.uniform()).cos()
    }
}

fn table(data: Data, seed: u64) -> String {
    let mut draw = Draw(SplitMix64::new(seed.wrapping_mul(7919) + 1));
    match data {
        Data::Cars | Data::Prices | Data::CarsLeaking | Data::CarsDoubled | Data::CarsRepeated | Data::CarsAlike => {
            cars(data, &mut draw)
        }
        Data::Classes => classes(&mut draw),
        Data::Rare => rare(&mut draw, 25),
        Data::Rarer => rare(&mut draw, 80),
        Data::Few => few(&mut draw),
        Data::Sine => sine(&mut draw),
        Data::Series => series(&mut draw),
        Data::Digits => String::new(),
    }
}

fn cars(data: Data, draw: &mut Draw) -> String {
    let mut text = "cylinders,displacement,horsepower,weight,acceleration,year,usa,europe,japan".to_owned();
    text += match data {
        Data::CarsLeaking => ",quote,mpg\n",
        Data::CarsDoubled => ",litres,cubic,mpg\n",
        Data::CarsAlike => ",d1,d2,d3,d4,d5,mpg\n",
        Data::Prices => ",price\n",
        _ => ",mpg\n",
    };
    for _ in 0..392 {
        let size = draw.normal();
        let origin = draw.uniform() + 0.25 * size;
        let (usa, europe, japan) = (origin > 0.4, origin > 0.2 && origin <= 0.4, origin <= 0.2);
        let cylinders = if size < 0.1 {
            4
        } else if size < 0.8 {
            6
        } else {
            8
        };
        let displacement = (194.0 + 98.0 * size + 18.0 * draw.normal()).max(68.0);
        let horsepower = (104.0 + 34.0 * size + 12.0 * draw.normal()).max(46.0);
        let weight = (2970.0 + 780.0 * size + 180.0 * draw.normal()).max(1600.0);
        let acceleration = 15.6 - 1.6 * size + 2.1 * draw.normal();
        let year = 70.0 + (13.0 * draw.uniform()).floor();
        let bend = (-0.5 * size).exp();
        let mpg = 18.5 + 5.0 * bend + 0.75 * (year - 76.0) - 2.0 * f64::from(u8::from(usa)) + 1.2 * draw.normal();
        let flag = u8::from;
        let mut row = format!(
            "{cylinders},{displacement:.1},{horsepower:.1},{weight:.0},{acceleration:.1},{year},{},{},{}",
            flag(usa),
            flag(europe),
            flag(japan)
        );
        match data {
            Data::CarsLeaking => row += &format!(",{:.3}", mpg * 1.3 - 4.0 + 0.01 * draw.normal()),
            Data::CarsDoubled => row += &format!(",{},{}", displacement * 0.0163871, displacement * 16.3871),
            Data::CarsAlike => {
                for _ in 0..5 {
                    row += &format!(",{}", displacement + 0.05 * draw.normal());
                }
            }
            _ => {}
        }
        let target = if data == Data::Prices { 40_000.0 - 900.0 * mpg } else { mpg };
        let times = if data == Data::CarsRepeated { 4 } else { 1 };
        for _ in 0..times {
            let _ = writeln!(text, "{row},{target:.2}");
        }
    }
    text
}

fn classes(draw: &mut Draw) -> String {
    let mut text = "width,length,mass,hue,age,kind\n".to_owned();
    for _ in 0..900 {
        let x: Vec<f64> = (0..5).map(|_| draw.normal()).collect();
        let radius = (x[0] * x[0] + x[1] * x[1]).sqrt() + 0.3 * x[2] + 0.08 * draw.normal();
        let kind = if radius > 1.55 {
            "outer"
        } else if x[0] + 0.5 * x[3] > 0.0 {
            "right"
        } else {
            "left"
        };
        let _ = writeln!(
            text,
            "{:.3},{:.3},{:.1},{:.4},{:.1},{kind}",
            5.0 + x[0],
            9.0 + 2.0 * x[1],
            300.0 + 60.0 * x[2],
            0.5 + 0.1 * x[3],
            40.0 + 12.0 * x[4]
        );
    }
    text
}

fn rare(draw: &mut Draw, of: u32) -> String {
    let mut text = "a,b,c,d,e,sick\n".to_owned();
    for _ in 0..2000 {
        let sick = draw.0.below(of) == 0;
        let shift = if sick { 1.1 } else { 0.0 };
        let x: Vec<f64> = (0..5).map(|i| draw.normal() + if i < 3 { shift } else { 0.0 }).collect();
        let _ = writeln!(
            text,
            "{:.3},{:.3},{:.3},{:.3},{:.3},{}",
            x[0],
            x[1],
            x[2],
            x[3],
            x[4],
            if sick { "yes" } else { "no" }
        );
    }
    text
}

fn few(draw: &mut Draw) -> String {
    let names: Vec<String> = (0..30).map(|i| format!("f{i}")).collect();
    let mut text = names.join(",") + ",y\n";
    for _ in 0..120 {
        let x: Vec<f64> = (0..30).map(|_| draw.normal()).collect();
        let y = x[0] + 1.5 * draw.normal();
        text += &x.iter().map(|v| format!("{v:.4}")).collect::<Vec<_>>().join(",");
        let _ = writeln!(text, ",{y:.4}");
    }
    text
}

fn sine(draw: &mut Draw) -> String {
    let mut text = "x,y\n".to_owned();
    for i in 0..1000 {
        let x = 10.0 * PI * i as f64 / 999.0;
        let _ = writeln!(text, "{x:.5},{:.5}", x.sin() + 0.1 * draw.normal());
    }
    text
}

fn series(draw: &mut Draw) -> String {
    let mut text = "temperature,demand\n".to_owned();
    let mut weather = 0.0;
    for hour in 0..900 {
        weather = 0.95 * weather + 0.3 * draw.normal();
        let day = (2.0 * PI * hour as f64 / 24.0).sin();
        let temperature = 15.0 + 5.0 * day + 2.0 * weather;
        let demand =
            500.0 + 90.0 * (2.0 * PI * (hour as f64 - 4.0) / 24.0).sin() - 15.0 * weather + 6.0 * draw.normal();
        let _ = writeln!(text, "{temperature:.3},{demand:.3}");
    }
    text
}

fn write_digits(folder: &Path, seed: u64) -> std::io::Result<()> {
    let (train, test) = (1500usize, 300usize);
    let drawn = digits::render(seed + 1, train, test, 1);
    let sets = [
        ("train", train, drawn.train_pixels, drawn.train_labels),
        ("t10k", test, drawn.test_pixels, drawn.test_labels),
    ];
    for (name, count, pixels, labels) in sets {
        let count = (count as u32).to_be_bytes();
        let side = (digits::SIDE as u32).to_be_bytes();
        let images = [&[0, 0, 8, 3][..], &count, &side, &side, &pixels].concat();
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images)?;
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), [&[0, 0, 8, 1][..], &count, &labels].concat())?;
    }
    Ok(())
}
