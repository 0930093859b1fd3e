//! A protocol that is one of several: the choice that a policy makes at run time.

/// Makes an enum of protocols of one family that is itself a [`Protocol`](crate::Protocol), so that
/// its driver has one code path and no `dyn`.
///
/// The protocols share peers, commands and events. Their messages and timers become enums with the
/// same variants: a message states on the wire which algorithm it belongs to, and one that belongs to
/// another algorithm than this member runs is ignored.
///
/// ```ignore
/// one_of! {
///     /// The mutex that the policy names.
///     pub enum AnyMutex {
///         type Peer = MemberId;
///         type Command = Command;
///         type Event = Event;
///         /// What its members send.
///         enum Message = AnyMessage;
///         /// Its timers.
///         enum Timer = AnyTimer;
///
///         /// One server grants.
///         Central(central::Central),
///         /// Replies are deferred.
///         RicartAgrawala(ricart_agrawala::RicartAgrawala),
///     }
/// }
/// ```
macro_rules! one_of {
    (
        $(#[$doc:meta])*
        pub enum $Any:ident {
            type Peer = $Peer:ty;
            type Command = $Command:ty;
            type Event = $Event:ty;
            $(#[$message_doc:meta])*
            enum Message = $Message:ident;
            $(#[$timer_doc:meta])*
            enum Timer = $Timer:ident;

            $($(#[$variant_doc:meta])* $Variant:ident($Protocol:ty),)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, PartialEq)]
        pub enum $Any {
            $($(#[$variant_doc])* $Variant($Protocol),)+
        }

        $(#[$message_doc])*
        #[derive(Clone, Debug, Eq, Hash, PartialEq, ::serde::Deserialize, ::serde::Serialize)]
        pub enum $Message {
            $($(#[$variant_doc])* $Variant(<$Protocol as $crate::Protocol>::Message),)+
        }

        $(#[$timer_doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum $Timer {
            $($(#[$variant_doc])* $Variant(<$Protocol as $crate::Protocol>::Timer),)+
        }

        impl $crate::Protocol for $Any {
            type Peer = $Peer;
            type Command = $Command;
            type Message = $Message;
            type Timer = $Timer;
            type Event = $Event;

            fn start(
                &mut self,
                now: $crate::LocalTime,
                out: &mut $crate::protocol::OutboxOf<Self>,
            ) {
                match self {
                    $(Self::$Variant(protocol) => {
                        let mut inner = $crate::Outbox::default();
                        protocol.start(now, &mut inner);
                        inner.pour_into(out, $Message::$Variant, $Timer::$Variant);
                    })+
                }
            }

            // A family of one has no message of another algorithm.
            #[allow(unreachable_patterns, clippy::wildcard_enum_match_arm)]
            fn handle(
                &mut self,
                now: $crate::LocalTime,
                input: $crate::protocol::InputOf<Self>,
                out: &mut $crate::protocol::OutboxOf<Self>,
            ) {
                match self {
                    $(Self::$Variant(protocol) => {
                        let input = match input {
                            $crate::Input::Command(command) => $crate::Input::Command(command),
                            $crate::Input::Message { from, message: $Message::$Variant(message) } => {
                                $crate::Input::Message { from, message }
                            }
                            $crate::Input::Timer($Timer::$Variant(timer)) => {
                                $crate::Input::Timer(timer)
                            }
                            _ => return,
                        };
                        let mut inner = $crate::Outbox::default();
                        protocol.handle(now, input, &mut inner);
                        inner.pour_into(out, $Message::$Variant, $Timer::$Variant);
                    })+
                }
            }
        }

        impl $crate::Named for $Message {
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$Variant(message) => message.name(),)+
                }
            }
        }
    };
}

pub(crate) use one_of;
