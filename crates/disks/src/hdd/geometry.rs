//! Where the bytes of a disk are, and how long the way there takes.
//!
//! Tracks are numbered as the bytes go: surface after surface, then the next cylinder. A track starts just so much later on
//! its circle than the one before as the switch between them takes, so that a transfer goes on after a switch without
//! waiting. Therefore one number says all about a byte's place: the time in which a transfer from byte 0 would reach it.

use crate::parameters::{Hdd, Stroke, ns_of_ms};
use crate::request::Nanos;

/// What is smallest on a track.
const GRAIN: u64 = 4096;

struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// Places and ways.
pub struct Geometry {
    revolution: Nanos,
    switch: Nanos,
    heads: u64,
    cylinders: u64,
    zones: Vec<Zone>,
    parameters: Hdd,
    /// Where on its circle the disk stands at moment 0.
    phase: Nanos,
}

/// A place on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The track, counted from the outermost.
    pub track: u64,
    /// When a transfer that started with byte 0 would be there.
    pub reached: Nanos,
}

impl Geometry {
    /// Lays a device of `size_bytes` out on the disk.
    #[must_use]
    pub fn new(parameters: &Hdd, size_bytes: u64, phase: u64) -> Self {
        let revolution = 60_000_000_000 / u64::from(parameters.rpm);
        let switch = ns_of_ms(parameters.track_switch_ms);
        let heads = u64::from(parameters.heads);
        let laid_out = match parameters.stroke {
            Stroke::Full => size_bytes,
            Stroke::Outer => parameters.capacity_bytes,
        };
        let track_bytes = |rate: u64| {
            let bytes = u128::from(rate) * u128::from(revolution + switch) / 1_000_000_000;
            (bytes as u64 / GRAIN).max(1) * GRAIN
        };
        let (outer, inner) = (parameters.outer_bytes_per_s, parameters.inner_bytes_per_s);
        let middle = track_bytes(outer.midpoint(inner));
        let cylinders = laid_out.div_ceil(heads * middle).max(1);
        let count = u64::from(parameters.zones).min(cylinders);
        let mut zones = Vec::with_capacity(count as usize);
        let (mut first_byte, mut first_track) = (0, 0);
        for index in 0..count {
            // The rate in the middle of the zone: odd multiples of half a zone's width from the outer edge.
            let rate = outer - (outer - inner) * (2 * index + 1) / (2 * count);
            let zone = Zone { first_byte, first_track, track_bytes: track_bytes(rate) };
            let tracks = (cylinders * (index + 1) / count) * heads - first_track;
            first_byte += tracks * zone.track_bytes;
            first_track += tracks;
            zones.push(zone);
        }
        let mut geometry = Self {
            revolution,
            switch,
            heads,
            cylinders,
            zones,
            parameters: parameters.clone(),
            phase: phase % revolution,
        };
        // Zones are rounded, so the last one may go on a little further than it should.
        let last = geometry.place(laid_out - 1).track / heads;
        geometry.cylinders = last + 1;
        geometry
    }

    /// One turn of the disk.
    #[must_use]
    pub fn revolution(&self) -> Nanos {
        self.revolution
    }

    /// Cylinders that the device is spread over; with [`Stroke::Outer`] those of the whole disk.
    #[must_use]
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Where a byte is.
    #[must_use]
    pub fn place(&self, byte: u64) -> Place {
        let (track, rest, track_bytes) = self.track_of(byte);
        Place { track, reached: track * (self.revolution + self.switch) + rest * self.revolution / track_bytes }
    }

    /// When a transfer from byte 0 is through with every byte before this one: before the switch, if a track ends there.
    #[must_use]
    pub fn through(&self, byte: u64) -> Nanos {
        let (track, rest, _) = self.track_of(byte);
        let place = self.place(byte);
        if rest == 0 && track > 0 { place.reached - self.switch } else { place.reached }
    }

    /// How far a transfer is that was through with everything before `byte` the time `elapsed` ago.
    #[must_use]
    pub fn onward(&self, byte: u64, elapsed: Nanos) -> u64 {
        let reached = self.through(byte) + elapsed;
        let whole = self.revolution + self.switch;
        let (track, rest) = (reached / whole, (reached % whole).min(self.revolution));
        let at = self.zones.partition_point(|zone| zone.first_track <= track) - 1;
        let zone = &self.zones[at];
        let bytes = zone.first_byte
            + (track - zone.first_track) * zone.track_bytes
            + (u128::from(rest) * u128::from(zone.track_bytes) / u128::from(self.revolution)) as u64;
        bytes / 512 * 512
    }

    /// The time from `now`, with the head at a track, until the head is over a place.
    #[must_use]
    pub fn way(&self, now: Nanos, head_track: u64, to: Place, write: bool) -> Nanos {
        let seek = self.seek(head_track, to.track, write);
        let angle = (now + seek + self.phase) % self.revolution;
        let wanted = to.reached % self.revolution;
        seek + (wanted + self.revolution - angle) % self.revolution
    }

    /// The time that the head takes from one track to another.
    #[must_use]
    pub fn seek(&self, from_track: u64, to_track: u64, write: bool) -> Nanos {
        let tracks = from_track.abs_diff(to_track);
        let cylinders = (from_track / self.heads).abs_diff(to_track / self.heads);
        if tracks == 0 {
            0
        } else if tracks == 1 || cylinders == 0 {
            self.switch
        } else {
            let share = cylinders as f64 / self.cylinders as f64;
            self.curve(share).max(self.switch) + if write { ns_of_ms(self.parameters.write_settle_ms) } else { 0 }
        }
    }

    /// The seek curve: time for a share of the full stroke.
    #[must_use]
    pub fn curve(&self, share: f64) -> Nanos {
        let hdd = &self.parameters;
        ns_of_ms(if share <= hdd.seek_knee {
            hdd.seek_short_ms + hdd.seek_short_sqrt_ms * share.sqrt()
        } else {
            hdd.seek_long_ms + hdd.seek_long_linear_ms * share
        })
    }

    fn track_of(&self, byte: u64) -> (u64, u64, u64) {
        let at = self.zones.partition_point(|zone| zone.first_byte <= byte) - 1;
        let zone = &self.zones[at];
        let within = byte - zone.first_byte;
        (zone.first_track + within / zone.track_bytes, within % zone.track_bytes, zone.track_bytes)
    }
}
