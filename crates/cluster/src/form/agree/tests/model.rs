//! Founders that crash, restart, lose their disks and their messages, over many seeds.
//!
//! Invariant: at most one founding ever stands on a majority of its founders' disks while no more than a minority of the
//! disks are lost; and once all are up with their disks, all have the same one.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_control::ClusterId;
use leasehold_wire::peer::{FormReply, FormRequest, Founding};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::{Heard, Step, answer, names, next};
use super::{founding, request, seed};

type Judge = fn(&FormRequest, &BTreeMap<String, Heard>) -> Step;

/// A founder's place: its disk, and its process while it runs.
struct Place {
    /// Drawn with the disk.
    request: FormRequest,
    stored: Option<Founding>,
    heard: Option<BTreeMap<String, Heard>>,
}

struct World {
    places: Vec<Place>,
    /// Offers on their way, to a place.
    offers: Vec<(usize, Founding)>,
    losses_left: usize,
    next_id: u64,
    foundings: u128,
    won: BTreeSet<ClusterId>,
    judge: Judge,
    rng: SmallRng,
}

impl World {
    fn new(founders: usize, losses: usize, judge: Judge, seed: u64) -> Self {
        let place = |place| Place {
            request: request(place, place as u64 + 1, founders),
            stored: None,
            heard: Some(BTreeMap::new()),
        };
        Self {
            places: (0..founders).map(place).collect(),
            offers: Vec::new(),
            losses_left: losses,
            next_id: 100,
            foundings: 0,
            won: BTreeSet::new(),
            judge,
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.places.len())
    }

    /// Something happens.
    fn happen(&mut self) {
        let one = self.any();
        match self.rng.random_range(0..100) {
            0..50 => {
                let other = self.any();
                let lost = self.rng.random_ratio(1, 8);
                self.ask(one, other, lost);
            }
            50..75 => self.step(one),
            75..85 => self.deliver(),
            85..89 => self.places[one].heard = None,
            89..96 => self.start(one),
            _ => self.lose(one),
        }
        self.count();
    }

    fn ask(&mut self, one: usize, other: usize, lost: bool) {
        let asker = self.places[one].request.clone();
        let answerer = &self.places[other];
        let heard = match &answerer.heard {
            Some(_) if !lost => {
                Heard::Said(answer(&answerer.request, answerer.stored.as_ref(), None, &asker))
            }
            _ => Heard::Nothing("unreachable".to_owned()),
        };
        if let Some(known) = &mut self.places[one].heard {
            known.insert(seed(other), heard);
        }
    }

    fn step(&mut self, one: usize) {
        let place = &self.places[one];
        let Some(heard) = place.heard.as_ref().filter(|_| place.stored.is_none()) else { return };
        match (self.judge)(&place.request, heard) {
            Step::Agree(founding) => self.places[one].stored = Some(founding),
            Step::Found(founders) => {
                self.foundings += 1;
                let founding = founding(self.foundings, founders);
                self.places[one].stored = Some(founding.clone());
                let others = (0..self.places.len()).filter(|other| *other != one);
                self.offers.extend(others.map(|other| (other, founding.clone())));
                if self.rng.random_ratio(1, 4) {
                    // The worst moment: what it stored is gone, and its offers are on their way.
                    self.lose(one);
                }
            }
            Step::Join { .. } | Step::Wait(_) => {}
        }
    }

    /// An offer arrives, however late.
    fn deliver(&mut self) {
        if self.offers.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.offers.len());
        let (to, founding) = self.offers.swap_remove(at);
        let place = &mut self.places[to];
        if place.heard.is_some() && place.stored.is_none() && names(&founding, &place.request) {
            place.stored = Some(founding);
        }
    }

    fn start(&mut self, one: usize) {
        self.places[one].heard.get_or_insert_with(BTreeMap::new);
    }

    fn lose(&mut self, one: usize) {
        // Before anything was founded a loss shows nothing.
        if self.losses_left == 0 || self.foundings == 0 {
            return;
        }
        self.losses_left -= 1;
        self.next_id += 1;
        let request = request(one, self.next_id, self.places.len());
        self.places[one] = Place { request, stored: None, heard: None };
    }

    /// Notes which founding stands on a majority of its founders' disks.
    fn count(&mut self) {
        for founding in self.places.iter().filter_map(|place| place.stored.as_ref()) {
            let stands =
                |place: &&Place| place.stored.as_ref() == Some(founding) && names(founding, &place.request);
            if self.places.iter().filter(stands).count() * 2 > founding.founders.len() {
                self.won.insert(founding.cluster.id);
            }
        }
    }

    /// Everybody is up and hears everybody, for a while.
    fn settle(&mut self) {
        let count = self.places.len();
        for _ in 0..4 {
            for one in 0..count {
                self.start(one);
                (0..count).for_each(|other| self.ask(one, other, false));
                self.step(one);
                self.count();
            }
        }
    }
}

fn run(founders: usize, losses: usize, judge: Judge, seed: u64) -> World {
    let mut world = World::new(founders, losses, judge, seed);
    for _ in 0..150 {
        world.happen();
    }
    world
}

#[test]
fn no_two_foundings_ever_stand_on_a_majority() {
    let mut lost = 0;
    for (founders, losses) in [(3, 0), (3, 1), (5, 2), (4, 1)] {
        for seed in 0..2_000 {
            let mut world = run(founders, losses, next, seed);
            world.settle();
            assert!(
                world.won.len() <= 1,
                "founders {founders}, losses {losses}, seed {seed}: {:?}",
                world.won
            );
            lost += usize::from(world.foundings > 1);
        }
    }
    assert!(lost > 100, "only {lost} runs had more than one founding: the model reaches too little");
}

#[test]
fn with_their_disks_all_founders_come_to_one_founding() {
    for founders in [1, 2, 3, 5] {
        for seed in 0..500 {
            let mut world = run(founders, 0, next, seed);
            world.settle();
            let stored: BTreeSet<Option<ClusterId>> =
                world.places.iter().map(|place| Some(place.stored.as_ref()?.cluster.id)).collect();
            assert_eq!(stored.len(), 1, "founders {founders}, seed {seed}: {stored:?}");
            assert!(!stored.contains(&None), "founders {founders}, seed {seed}: nobody founded");
            assert_eq!(world.won.len(), 1);
        }
    }
}

/// As [`next`], but takes a majority of the seeds for all of them.
fn hasty(me: &FormRequest, heard: &BTreeMap<String, Heard>) -> Step {
    let forming: Vec<&FormRequest> = heard
        .values()
        .filter_map(|heard| match heard {
            Heard::Said(FormReply::Forming(other)) => Some(other),
            Heard::Said(FormReply::Formed(_) | FormReply::Founding(_)) | Heard::Nothing(_) => None,
        })
        .collect();
    match next(me, heard) {
        Step::Wait(_) if forming.len() * 2 > me.seeds.len() && me.seeds.first() == Some(&seed_of(me)) => {
            Step::Found(forming.into_iter().map(|other| other.record.clone()).collect())
        }
        step @ (Step::Wait(_) | Step::Agree(_) | Step::Join { .. } | Step::Found(_)) => step,
    }
}

fn seed_of(me: &FormRequest) -> String {
    me.record.peer_address.to_string()
}

#[test]
fn founding_before_all_have_answered_would_be_noticed() {
    let broken = (0..2_000).filter(|seed| run(3, 1, hasty, *seed).won.len() > 1).count();
    assert!(broken > 0, "the model can't tell a hasty founder from a careful one");
}
