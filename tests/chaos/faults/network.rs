//! Ways that are cut, and packets that are lost, repeated, late and out of order.

use std::time::Duration;

use rand::rngs::SmallRng;

use super::directions;
use crate::net::Place;
use crate::scenario::{Drawn, FaultSpec, OneWay};
use crate::world::{World, pairs};

/// Cuts targets off from all that aren't among them.
pub(super) fn cut(world: &World, targets: &[Place], one_way: Option<OneWay>) -> String {
    let (hears_none, heard_by_none) = directions(one_way);
    for other in world.places() {
        for target in targets.iter().filter(|_| !targets.contains(&other)) {
            if hears_none {
                world.net.cut(world.peers(), other, *target);
            }
            if heard_by_none {
                world.net.cut(world.peers(), *target, other);
            }
        }
    }
    match one_way {
        None => "both ways",
        Some(OneWay::In) => "hears nobody",
        Some(OneWay::Out) => "nobody hears it",
    }
    .to_owned()
}

pub(super) fn join(world: &World) -> String {
    world.net.join_all(world.peers());
    String::new()
}

/// Every way between processes fares so from now on.
pub(super) fn weather(world: &World, spec: &FaultSpec, chance: &mut SmallRng) -> String {
    let mut percent = |drawn: Option<Drawn>| {
        u8::try_from(drawn.map_or(0, |drawn| drawn.draw_whole(chance))).expect("scenarios say 50 at most")
    };
    let (loss, twice, late) =
        (percent(spec.loss_percent), percent(spec.duplicate_percent), percent(spec.reorder_percent));
    let mut ms =
        |drawn: Option<Drawn>| Duration::from_millis(drawn.map_or(0, |drawn| drawn.draw_whole(chance)));
    let (delay, jitter) = (ms(spec.delay_ms), ms(spec.jitter_ms));
    let Some(switch) = world.net.switch() else { return "no network of our own".to_owned() };
    for (from, to) in pairs(&world.places()) {
        switch.change(from, to, |way| {
            (way.loss_percent, way.duplicate_percent, way.reorder_percent) = (loss, twice, late);
            (way.delay, way.jitter) = (delay, jitter);
        });
    }
    format!("{loss} % lost, {twice} % twice, {late} % late; {delay:?} and up to {jitter:?} on the way")
}

pub(super) fn clear(world: &World) -> String {
    if let Some(switch) = world.net.switch() {
        switch.change_all(|way| *way = crate::net::Way { cut: way.cut, ..crate::net::Way::default() });
    }
    world.lengthen_ways();
    String::new()
}
