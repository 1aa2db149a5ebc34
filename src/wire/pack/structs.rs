//! The two macros that give a struct or an enum its place in the protocol.
//!
//! A struct is its fields in order, an enum is its number. An enum is a number with names, not a
//! Rust enum: an unknown number must reach the handler, which answers INVALID_PARAMS where the peer
//! does.

/// Declares structs whose fields are sent in the order written. `<S>` is the type of their strings.
macro_rules! wire_struct {
    ($($(#[$doc:meta])* pub struct $name:ident $(<$text:ident>)? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)+
    })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$text>)? { $($(#[$field_doc])* pub $field: $type,)+ }

        impl $(<$text: $crate::wire::pack::Text>)? $crate::wire::pack::Wire for $name $(<$text>)? {
            const LITERAL: &'static $crate::wire::pack::Literal =
                &$crate::wire::pack::Literal::of($crate::wire::pack::literal::code::STRUCT)
                    $(.then(<$type as $crate::wire::pack::Wire>::LITERAL))+
                    .push($crate::wire::pack::literal::code::END);
            const LEN_MIN: usize = 0 $(+ <$type as $crate::wire::pack::Wire>::LEN_MIN)+;
        }

        impl $(<$text: $crate::wire::pack::Text>)? $crate::wire::pack::Pack for $name $(<$text>)? {
            fn pack(&self, out: &mut $crate::wire::pack::Writer<'_>) {
                $($crate::wire::pack::Pack::pack(&self.$field, out);)+
            }

            #[cfg(test)]
            fn to_json(&self) -> serde_json::Value {
                serde_json::Value::Object(serde_json::Map::from_iter([
                    $((
                        stringify!($field).trim_start_matches("r#").to_owned(),
                        self.$field.to_json(),
                    ),)+
                ]))
            }
        }

        impl<'a $(, $text: $crate::wire::pack::Text + $crate::wire::pack::Unpack<'a>)?>
            $crate::wire::pack::Unpack<'a> for $name $(<$text>)?
        {
            fn unpack(
                reader: &mut $crate::wire::pack::Reader<'a>,
            ) -> Result<Self, $crate::wire::pack::UnpackError> {
                Ok($name { $($field: $crate::wire::pack::Unpack::unpack(reader)?,)+ })
            }

            #[cfg(test)]
            fn sample(dice: &mut $crate::wire::pack::Dice) -> Self {
                $name { $($field: $crate::wire::pack::Unpack::sample(dice),)+ }
            }
        }
    )+ };
}

/// Declares enums: a number with named values, any other number is kept as it came.
macro_rules! wire_enum {
    ($($(#[$doc:meta])* pub enum $name:ident: $number:ty {
        $($(#[$value_doc:meta])* $value:ident = $code:literal,)+
    })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(
            /// The number on the wire.
            pub $number,
        );

        impl $name {
            $($(#[$value_doc])* pub const $value: $name = $name($code);)+

            /// The peer's name of the value, if the number has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($code => Some(stringify!($value)),)+ _ => None }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }

        impl $crate::wire::pack::Wire for $name {
            const LITERAL: &'static $crate::wire::pack::Literal =
                <$number as $crate::wire::pack::Wire>::LITERAL;
            const LEN_MIN: usize = <$number as $crate::wire::pack::Wire>::LEN_MIN;
        }

        impl $crate::wire::pack::Pack for $name {
            fn pack(&self, out: &mut $crate::wire::pack::Writer<'_>) {
                $crate::wire::pack::Pack::pack(&self.0, out);
            }

            #[cfg(test)]
            fn to_json(&self) -> serde_json::Value {
                self.name().map_or_else(|| self.0.into(), Into::into)
            }
        }

        impl<'a> $crate::wire::pack::Unpack<'a> for $name {
            fn unpack(
                reader: &mut $crate::wire::pack::Reader<'a>,
            ) -> Result<Self, $crate::wire::pack::UnpackError> {
                $crate::wire::pack::Unpack::unpack(reader).map($name)
            }

            #[cfg(test)]
            fn sample(dice: &mut $crate::wire::pack::Dice) -> Self {
                $name($crate::wire::pack::Unpack::sample(dice))
            }
        }
    )+ };
}

pub(crate) use {wire_enum, wire_struct};
