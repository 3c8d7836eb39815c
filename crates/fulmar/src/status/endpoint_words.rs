//! What is wrong with an endpoint, in words, at either end of a session.

use super::table::span;
use crate::endpoints::EndpointState;

/// At which end an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// At this one.
    Ours,
    /// At the other one.
    Theirs,
}

/// An endpoint of which something is to be said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointWords<'a> {
    pub(crate) state: EndpointState,
    /// The vehicle's autopilot is behind it.
    pub(crate) is_autopilot: bool,
    pub(crate) is_serial: bool,
    pub(crate) name: &'a str,
}

impl EndpointWords<'_> {
    /// Says what is wrong, of an endpoint where nothing has come in for so many seconds.
    pub(crate) fn told(&self, whose: Whose, quiet_s: f64) -> String {
        let whose = match whose {
            Whose::Ours => "the",
            Whose::Theirs => "its",
        };
        let (name, what, quiet) = (self.name, self.in_brief(), span(quiet_s));
        match (self.is_autopilot, self.state) {
            (true, EndpointState::TakesNothing) => {
                format!("{whose} autopilot is not reached: {name} {what}")
            }
            (true, _) => format!("{whose} autopilot is silent for {quiet}: {name} {what}"),
            (false, EndpointState::Silent) => {
                format!("{whose} endpoint {name} {what} for {quiet}")
            }
            (false, _) => format!("{whose} endpoint {name} {what}"),
        }
    }

    /// Says what the endpoint does that it should not.
    pub(crate) fn in_brief(&self) -> &'static str {
        match self.state {
            EndpointState::Well => "is well",
            EndpointState::Missing => "is missing",
            EndpointState::Silent => "says nothing",
            EndpointState::Noise if self.is_serial => "sends noise (baud rate?)",
            EndpointState::Noise => "sends what is not MAVLink",
            EndpointState::TakesNothing => "takes nothing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_autopilot_is_told_with_its_cause() {
        let (is_autopilot, is_serial) = (true, true);
        let told = |state, is_autopilot| {
            let words = EndpointWords { state, is_autopilot, is_serial, name: "ttyAMA0" };
            words.told(Whose::Theirs, 12.3)
        };
        let silent = "its autopilot is silent for 12 s: ttyAMA0";
        assert_eq!(told(EndpointState::Missing, is_autopilot), format!("{silent} is missing"));
        assert_eq!(told(EndpointState::Silent, true), format!("{silent} says nothing"));
        assert_eq!(told(EndpointState::Noise, true), format!("{silent} sends noise (baud rate?)"));
        let taken = "its autopilot is not reached: ttyAMA0 takes nothing";
        assert_eq!(told(EndpointState::TakesNothing, true), taken);
        assert_eq!(
            told(EndpointState::Silent, false),
            "its endpoint ttyAMA0 says nothing for 12 s"
        );
        assert_eq!(told(EndpointState::Missing, false), "its endpoint ttyAMA0 is missing");
    }
}
