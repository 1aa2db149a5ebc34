//! The protocol's building blocks as Rust types (wire protocol 2.3).
//!
//! Numbers, bool, strings, vectors, maps, optionals, expecteds, the store's identities. A string
//! may be any of the types that implement [`Text`]: borrowed when decoding, shared or borrowed when
//! answering.

use std::sync::Arc;

use super::literal::{Literal, code};
use super::reader::{Reader, UnpackError};
use super::writer::Writer;
use super::{Pack, Unpack, Wire};
use crate::model::ids::{ClientId, ReplicaId, SegmentId, TaskId, Uuid};

#[cfg(test)]
use {super::Dice, rand::Rng, serde_json::Value};

macro_rules! numbers {
    ($($type:ident = $code:ident),+) => { $(
        impl Wire for $type {
            const LITERAL: &'static Literal = &Literal::of(code::$code);
            const LEN_MIN: usize = size_of::<$type>();
        }

        impl Pack for $type {
            #[inline]
            fn pack(&self, out: &mut Writer<'_>) {
                out.raw(&self.to_le_bytes());
            }

            #[cfg(test)]
            fn to_json(&self) -> Value {
                (*self).into()
            }
        }

        impl Unpack<'_> for $type {
            #[inline]
            fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
                reader.array().map($type::from_le_bytes)
            }

            #[cfg(test)]
            fn sample(dice: &mut Dice) -> Self {
                dice.random()
            }
        }
    )+ };
}

numbers!(u8 = U8, u32 = U32, u64 = U64, i32 = I32, i64 = I64);

impl Wire for bool {
    const LITERAL: &'static Literal = &Literal::of(code::BOOL);
    const LEN_MIN: usize = 1;
}

impl Pack for bool {
    fn pack(&self, out: &mut Writer<'_>) {
        out.byte(u8::from(*self));
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        (*self).into()
    }
}

impl Unpack<'_> for bool {
    /// Any byte but 0 is true, as at the peer (wire protocol 1.5).
    fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        reader.byte().map(|byte| byte != 0)
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        dice.random()
    }
}

impl Wire for () {
    const LITERAL: &'static Literal = &Literal::of(code::VOID);
    const LEN_MIN: usize = 0;
}

impl Pack for () {
    fn pack(&self, _out: &mut Writer<'_>) {}

    #[cfg(test)]
    fn to_json(&self) -> Value {
        Value::Null
    }
}

impl Unpack<'_> for () {
    fn unpack(_reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        Ok(())
    }

    #[cfg(test)]
    fn sample(_dice: &mut Dice) -> Self {}
}

/// The arguments of a function without any: its request has no body, and one that comes is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoArguments;

impl Wire for NoArguments {
    const LITERAL: &'static Literal = &Literal::EMPTY;
    const LEN_MIN: usize = 0;
}

impl Pack for NoArguments {
    fn pack(&self, _out: &mut Writer<'_>) {}

    #[cfg(test)]
    fn to_json(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }
}

impl Unpack<'_> for NoArguments {
    fn unpack(_reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        Ok(NoArguments)
    }

    #[cfg(test)]
    fn sample(_dice: &mut Dice) -> Self {
        NoArguments
    }
}

/// A type that goes over the wire as a byte string. Keys are arbitrary bytes, so reading gives
/// bytes.
pub trait Text: Pack {}

macro_rules! texts {
    ($($type:ty: $bytes:ident),+) => { $(
        impl Wire for $type {
            const LITERAL: &'static Literal = &Literal::of(code::STRING).push(code::CHAR);
            const LEN_MIN: usize = 1;
        }

        impl Pack for $type {
            #[inline]
            fn pack(&self, out: &mut Writer<'_>) {
                out.text(texts!(@$bytes self));
            }

            #[cfg(test)]
            fn to_json(&self) -> Value {
                crate::wire::tests::text_to_json(texts!(@$bytes self))
            }
        }

        impl Text for $type {}
    )+ };
    (@bytes $value:ident) => { $value };
    (@str $value:ident) => { $value.as_bytes() };
}

texts!(&[u8]: bytes, Box<[u8]>: bytes, Arc<[u8]>: bytes);
texts!(&str: str, String: str, Arc<str>: str);

impl<'a> Unpack<'a> for &'a [u8] {
    #[inline]
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        reader.text()
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        crate::wire::tests::sample_text(dice)
    }
}

impl Unpack<'_> for Box<[u8]> {
    fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        reader.text().map(Box::from)
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        Box::from(crate::wire::tests::sample_text(dice))
    }
}

impl<T: Wire> Wire for Vec<T> {
    const LITERAL: &'static Literal = &Literal::of(code::VECTOR).then(T::LITERAL);
    const LEN_MIN: usize = 1;
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.length(self.len());
        for item in self {
            item.pack(out);
        }
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        self.iter().map(Pack::to_json).collect()
    }
}

impl<'a, T: Unpack<'a>> Unpack<'a> for Vec<T> {
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        let count = reader.count(T::LEN_MIN)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(T::unpack(reader)?);
        }
        Ok(items)
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        // Now and then a count that needs two bytes.
        let count = match dice.random_range(0..100) {
            0 => 300,
            other => other % 4,
        };
        (0..count).map(|_| T::sample(dice)).collect()
    }
}

/// A map, as its pairs in the order sent. The peer sends any order and accepts any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V>(pub Vec<(K, V)>);

impl<K: Wire, V: Wire> Wire for Map<K, V> {
    const LITERAL: &'static Literal = &Literal::of(code::MAP).then(K::LITERAL).then(V::LITERAL);
    const LEN_MIN: usize = 1;
}

impl<K: Pack, V: Pack> Pack for Map<K, V> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.length(self.0.len());
        for (key, value) in &self.0 {
            key.pack(out);
            value.pack(out);
        }
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        let pair = |(key, value): &(K, V)| Value::Array(vec![key.to_json(), value.to_json()]);
        self.0.iter().map(pair).collect()
    }
}

impl<'a, K: Unpack<'a>, V: Unpack<'a>> Unpack<'a> for Map<K, V> {
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        let count = reader.count(K::LEN_MIN + V::LEN_MIN)?;
        let mut pairs = Vec::with_capacity(count);
        for _ in 0..count {
            pairs.push((K::unpack(reader)?, V::unpack(reader)?));
        }
        Ok(Map(pairs))
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        let count = dice.random_range(0..4);
        Map((0..count).map(|_| (K::sample(dice), V::sample(dice))).collect())
    }
}

impl<T: Wire> Wire for Option<T> {
    const LITERAL: &'static Literal = &Literal::of(code::OPTIONAL).then(T::LITERAL);
    const LEN_MIN: usize = 1;
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.byte(u8::from(self.is_some()));
        if let Some(value) = self {
            value.pack(out);
        }
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Pack::to_json)
    }
}

impl<'a, T: Unpack<'a>> Unpack<'a> for Option<T> {
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        match reader.byte()? {
            0 => Ok(None),
            _ => T::unpack(reader).map(Some),
        }
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        dice.random::<bool>().then(|| T::sample(dice))
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    const LITERAL: &'static Literal =
        &Literal::of(code::EXPECTED).then(T::LITERAL).then(E::LITERAL);
    const LEN_MIN: usize = 1;
}

impl<T: Pack, E: Pack> Pack for Result<T, E> {
    fn pack(&self, out: &mut Writer<'_>) {
        out.byte(u8::from(self.is_ok()));
        match self {
            Ok(value) => value.pack(out),
            Err(error) => error.pack(out),
        }
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        match self {
            Ok(value) => serde_json::json!({ "ok": value.to_json() }),
            Err(error) => serde_json::json!({ "err": error.to_json() }),
        }
    }
}

impl<'a, T: Unpack<'a>, E: Unpack<'a>> Unpack<'a> for Result<T, E> {
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        match reader.byte()? {
            0 => E::unpack(reader).map(Err),
            _ => T::unpack(reader).map(Ok),
        }
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        match dice.random() {
            true => Ok(T::sample(dice)),
            false => Err(E::sample(dice)),
        }
    }
}

impl Wire for Uuid {
    /// A pair of plain numbers carries its size and alignment; a struct of two would not.
    const LITERAL: &'static Literal = &Literal::of(code::STRUCT).then_bytes(&[
        code::U64,
        code::U64,
        code::EIGHT,
        code::EIGHT,
        code::END,
    ]);
    const LEN_MIN: usize = 16;
}

impl Pack for Uuid {
    fn pack(&self, out: &mut Writer<'_>) {
        self.first.pack(out);
        self.second.pack(out);
    }

    #[cfg(test)]
    fn to_json(&self) -> Value {
        serde_json::json!([self.first, self.second])
    }
}

impl Unpack<'_> for Uuid {
    fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
        let (first, second) = (u64::unpack(reader)?, u64::unpack(reader)?);
        Ok(Uuid { first, second })
    }

    #[cfg(test)]
    fn sample(dice: &mut Dice) -> Self {
        let (first, second) = (u64::sample(dice), u64::sample(dice));
        Uuid { first, second }
    }
}

macro_rules! identities {
    ($($type:ident($inner:ty)),+) => { $(
        impl Wire for $type {
            const LITERAL: &'static Literal = <$inner as Wire>::LITERAL;
            const LEN_MIN: usize = <$inner as Wire>::LEN_MIN;
        }

        impl Pack for $type {
            fn pack(&self, out: &mut Writer<'_>) {
                self.0.pack(out);
            }

            #[cfg(test)]
            fn to_json(&self) -> Value {
                self.0.to_json()
            }
        }

        impl Unpack<'_> for $type {
            fn unpack(reader: &mut Reader<'_>) -> Result<Self, UnpackError> {
                <$inner>::unpack(reader).map($type)
            }

            #[cfg(test)]
            fn sample(dice: &mut Dice) -> Self {
                $type(<$inner>::sample(dice))
            }
        }
    )+ };
}

identities!(ClientId(Uuid), SegmentId(Uuid), TaskId(Uuid), ReplicaId(u64));
