//! Times of requests as they become final, for who follows a recording that goes on: where sequences were recorded of
//! requests, otherwise of generations. They are the times that [`super::Statistics`] has at the end, one by one.

use super::request::Request;
use super::requests::{RequestNews, Requests};
use crate::ids::Phase;
use crate::raw::Decoder;
use crate::sampling::{GenerationNews, GenerationSums};
use crate::step::Step;

/// A time that is final, or a request that has ended. Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq)]
pub enum FollowedNews {
    /// A first token was chosen.
    FirstToken {
        /// When.
        time: u64,
        /// Since the request arrived, or else since its first step began, ns.
        after: u64,
    },
    /// A further token was chosen, or those of a step.
    NextToken {
        /// When.
        time: u64,
        /// Since the token before, ns.
        after: u64,
    },
    /// A request has ended. Without sequences nobody knows when one has.
    Ended(Box<Request>),
}

/// Times of generations that are delayed, at most.
const MOST_DELAYED: usize = 4096;

/// The requests of a recording that goes on. Memory depends on how many are open.
#[derive(Debug)]
pub struct Followed {
    requests: Requests,
    generations: GenerationSums,
    /// What steps tell while a request has its sequence: its tokens may be told yet, and then tell it better.
    delayed: Vec<GenerationNews>,
}

impl Default for Followed {
    fn default() -> Self {
        Self { requests: Requests::followed(), generations: GenerationSums::followed(), delayed: Vec::new() }
    }
}

impl Followed {
    /// Takes a step; gives what became final with it.
    pub fn step(&mut self, step: &Step, decoder: &Decoder) -> Vec<FollowedNews> {
        self.requests.add(step, decoder);
        let phase = step.phase.unwrap_or(Phase::Outside);
        if phase != Phase::Outside && !self.requests.were_recorded() {
            self.generations.push(&step.row(phase, decoder));
        }
        self.news(false)
    }

    /// Ends the recording; gives what becomes final by that.
    pub fn finish(&mut self) -> Vec<FollowedNews> {
        self.requests.end_news();
        self.generations.end_news();
        self.news(true)
    }

    /// Requests, where sequences were recorded.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    fn news(&mut self, at_end: bool) -> Vec<FollowedNews> {
        self.delayed.extend(self.generations.take_news());
        let requests = self.requests.take_news();
        if self.requests.were_recorded() {
            self.delayed.clear();
            return requests.into_iter().map(of_request).collect();
        }
        if !at_end && self.delayed.len() < MOST_DELAYED && self.requests.awaits_tokens() {
            return Vec::new();
        }
        std::mem::take(&mut self.delayed).into_iter().map(of_generation).collect()
    }
}

fn of_request(news: RequestNews) -> FollowedNews {
    match news {
        RequestNews::FirstToken(request) => FollowedNews::FirstToken {
            time: request.first_token.unwrap_or(request.end),
            after: request.ttft().unwrap_or_default(),
        },
        RequestNews::NextToken { time, after } => FollowedNews::NextToken { time, after },
        RequestNews::Ended(request) => FollowedNews::Ended(Box::new(request)),
    }
}

fn of_generation(news: GenerationNews) -> FollowedNews {
    match news {
        GenerationNews::FirstToken { time, after } => FollowedNews::FirstToken { time, after },
        GenerationNews::NextToken { time, after } => FollowedNews::NextToken { time, after },
    }
}
