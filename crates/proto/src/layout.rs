//! Macros that define the wire types of NFS once for both directions: structs as a list of fields,
//! enumerations as a list of numbers, and borrowed opaque data with its limit.

/// A struct whose wire form is its fields one after the other, in both directions.
macro_rules! fields {
    ($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? { $($(#[$fmeta:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$fmeta])* pub $field: $ty,)*
        }
        $crate::layout::fields!(@decode $name $(<$life>)? { $($field)* });
        impl $(<$life>)? xdr::Encode for $name $(<$life>)? {
            fn encode(&self, w: &mut xdr::Writer) {
                $(w.put(&self.$field);)*
            }
        }
    };
    (@decode $name:ident <$life:lifetime> { $($field:ident)* }) => {
        impl<$life> xdr::Decode<$life> for $name<$life> {
            fn decode(r: &mut xdr::Reader<$life>) -> Result<Self, xdr::Error> {
                Ok(Self { $($field: r.get()?,)* })
            }
        }
    };
    (@decode $name:ident { $($field:ident)* }) => {
        impl<'r> xdr::Decode<'r> for $name {
            fn decode(r: &mut xdr::Reader<'r>) -> Result<Self, xdr::Error> {
                Ok(Self { $($field: r.get()?,)* })
            }
        }
    };
}
pub(crate) use fields;

/// An enumeration with its numbers, in both directions; another number does not decode.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident as $what:literal { $($(#[$vmeta:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $number,)*
        }
        impl $name {
            /// Every member, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The member with this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
        impl xdr::Encode for $name {
            fn encode(&self, w: &mut xdr::Writer) {
                w.u32(self.number());
            }
        }
        impl<'r> xdr::Decode<'r> for $name {
            fn decode(r: &mut xdr::Reader<'r>) -> Result<Self, xdr::Error> {
                let value = r.u32()?;
                Self::from_number(value).ok_or(xdr::Error::NotMember { what: $what, value })
            }
        }
    };
}
pub(crate) use numbers;

/// Variable-length opaque data of at most `MAX` bytes, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<'a, const MAX: usize>(pub &'a [u8]);

impl<'a, const MAX: usize> xdr::Decode<'a> for Bytes<'a, MAX> {
    fn decode(r: &mut xdr::Reader<'a>) -> Result<Self, xdr::Error> {
        r.opaque(MAX).map(Self)
    }
}

impl<const MAX: usize> xdr::Encode for Bytes<'_, MAX> {
    fn encode(&self, w: &mut xdr::Writer) {
        w.opaque(self.0);
    }
}
