//! Settings are enums told apart by `name`. In a file, `"adam"` and `{ name = "adam", eps = 1e-7 }` both mean Adam.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::value::{Error, MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, Visitor};

/// Settings that can be asked for by name alone, everything else at its default.
pub trait ByName: DeserializeOwned {
    /// `Err` lists the names there are. Mostly [`from_name`]; without a body here, so that reading a name is compiled once,
    /// not by every crate that does.
    fn by_name(name: &str) -> Result<Self, String>;

    /// For what its name says all of: what to tell those who give it settings.
    fn is_its_name(&self) -> Option<&'static str> {
        None
    }
}

/// A table that has nothing but its `name`.
pub fn from_name<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    let fields = [("name", name)];
    T::deserialize(MapDeserializer::<_, Error>::new(fields.into_iter())).map_err(|e| e.to_string())
}

/// For `#[serde(deserialize_with = "…")]`: a bare name, or a table with `name` and settings.
pub fn name_or_table<'de, D: Deserializer<'de>, T: ByName>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(NameOrTable(PhantomData))
}

struct NameOrTable<T>(PhantomData<T>);

impl<'de, T: ByName> Visitor<'de> for NameOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name, or a table with `name` and its settings")
    }
    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<T, E> {
        T::by_name(name).map_err(E::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let mut keys = Vec::new();
        let value = T::deserialize(MapAccessDeserializer::new(Noted { map, keys: &mut keys }))?;
        match (keys.iter().find(|key| *key != "name"), value.is_its_name()) {
            (Some(key), Some(advice)) => Err(serde::de::Error::custom(format!("no setting `{key}` here: {advice}"))),
            _ => Ok(value),
        }
    }
}

/// A table whose keys are noted: a variant without settings is read from any.
struct Noted<'a, A> {
    map: A,
    keys: &'a mut Vec<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Noted<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key::<String>()? else { return Ok(None) };
        self.keys.push(key.clone());
        seed.deserialize(key.into_deserializer()).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adam, Clip, Loss, OptimizerConfig, ScheduleConfig, Sgd};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct File {
        #[serde(deserialize_with = "name_or_table")]
        optimizer: OptimizerConfig,
    }

    #[test]
    fn a_name_or_a_table() {
        let read = |text: &str| serde_json::from_str::<File>(text).map(|f| f.optimizer).map_err(|e| e.to_string());
        assert_eq!(read(r#"{"optimizer": "adam"}"#), Ok(OptimizerConfig::Adam(Adam::default())));
        let momentum = OptimizerConfig::Sgd(Sgd { momentum: 0.5, ..Sgd::default() });
        assert_eq!(read(r#"{"optimizer": {"name": "sgd", "momentum": 0.5}}"#), Ok(momentum));
        let nesterov = OptimizerConfig::Sgd(Sgd { momentum: 0.9, nesterov: true, ..Sgd::default() });
        assert_eq!(read(r#"{"optimizer": "nesterov"}"#), Ok(nesterov));
        assert!(read(r#"{"optimizer": "adan"}"#).unwrap_err().contains("adamw"));
        assert!(read(r#"{"optimizer": {"name": "sgd", "beta": 0.5}}"#).unwrap_err().contains("beta"));
    }

    #[test]
    fn settings_that_are_not_heard_are_refused() {
        fn read<T: ByName>(text: &str) -> Result<T, String> {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            name_or_table(&mut deserializer).map_err(|e| e.to_string())
        }
        assert_eq!(read(r#"{"name": "bce", "pos_weight": null}"#), Ok(Loss::Bce { pos_weight: None }));
        assert_eq!(read(r#"{"name": "bce", "pos_weight": 3}"#), Ok(Loss::Bce { pos_weight: Some(vec![3.0]) }));
        let network = read::<crate::Network>(r#"{"hidden": [64], "name": "mlp"}"#).unwrap_err();
        assert!(network.contains("`hidden` beside `model`"), "{network}");
        assert!(read::<ScheduleConfig>(r#"{"name": "constant", "gamma": 1}"#).is_err());
        assert!(read::<crate::WeightInit>(r#"{"name": "zeros", "std": 1}"#).is_err());
        assert!(read::<crate::WeightInit>(r#"{"name": "normal", "gain": 1}"#).is_err());
    }

    #[test]
    fn all_names_stand_alone_and_survive_writing() {
        fn check<T: ByName + serde::Serialize + PartialEq + fmt::Debug>(names: &[&str]) {
            for name in names {
                let value = T::by_name(name).unwrap_or_else(|e| panic!("{name}: {e}"));
                let text = serde_json::to_string(&value).unwrap();
                assert!(text.contains(&format!("\"name\":\"{name}\"")), "{text}");
                assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
            }
        }
        check::<OptimizerConfig>(&["sgd", "rmsprop", "adam", "adamw", "lamb", "lion", "muon"]);
        check::<Loss>(&["mse", "mae", "huber", "cross-entropy", "nll", "bce"]);
        check::<ScheduleConfig>(&["constant", "step", "exponential", "cosine", "one-cycle", "warmup", "plateau"]);
        check::<Clip>(&["norm", "value"]);
        check::<crate::WeightInit>(&["default", "kaiming-uniform", "xavier-normal", "zeros", "normal", "uniform"]);
    }
}
