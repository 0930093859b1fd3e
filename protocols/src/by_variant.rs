//! Lists of the variants of an enum, which cannot lack one.

/// Gives an enum without fields `ALL`, the list of its variants, and a value for each of them. An enum whose variants
/// have no such value has the list alone. A variant that is in no list does not compile.
///
/// ```
/// #[derive(Clone, Copy)]
/// pub enum Side {
///     Left,
///     Right,
/// }
///
/// impl Side {
///     conclave_protocols::by_variant! {
///         /// As it is written.
///         pub fn name -> &'static str {
///             Left => "left",
///             Right => "right",
///         }
///     }
/// }
///
/// assert_eq!(Side::ALL.map(Side::name), ["left", "right"]);
/// ```
///
/// ```compile_fail,E0004
/// enum Side {
///     Left,
///     Right,
/// }
///
/// impl Side {
///     conclave_protocols::by_variant!(pub Left);
/// }
/// ```
#[macro_export]
macro_rules! by_variant {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident -> $Value:ty { $($Variant:ident => $value:expr,)+ }
    ) => {
        $crate::by_variant!($vis $($Variant),+);

        $(#[$doc])*
        #[must_use]
        $vis fn $name(self) -> $Value {
            match self {
                $(Self::$Variant => $value,)+
            }
        }
    };
    ($vis:vis $($Variant:ident),+) => {
        /// All of them.
        $vis const ALL: [Self; [$(stringify!($Variant)),+].len()] = {
            let _is_listed = |one: Self| match one {
                $(Self::$Variant => (),)+
            };
            [$(Self::$Variant),+]
        };
    };
}
