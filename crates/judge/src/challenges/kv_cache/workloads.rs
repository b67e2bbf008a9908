//! What is timed and weighed: single tokens appended to a long context and attended, and the context itself.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, DType, StateId, Tensor};
use tribunal_runner::Trouble;

use super::calls;
use super::config::Config;
use super::model::{Model, Tokens};
use super::rounding;
use super::spread::Spread;
use crate::compare::{Expected, compare};
use crate::lead::budgets;
use crate::measure::Rate;
use crate::workload::{KeepsState, Play, Pool, Proof, StateBytes, Sweep, Workload, Workloads};
use crate::{Effort, Plan, Subject};

/// Tokens of a prompt that are appended at once.
const CHUNK: usize = 512;

/// Tokens that a play decodes and times, after one that it does not.
const DECODED: usize = 4;

/// The same of a play whose peak is weighed: a token needs hardly more than the one before it.
const DECODED_WEIGHED: usize = 1;

/// Tokens of each sequence of a cache that is weighed: it is full.
const KEPT: usize = 4096;

/// The same where bytes are counted, which no allocator rounds to pages.
const KEPT_ON_DEVICE: usize = 1024;

/// Tokens of each sequence of a cache whose traffic is counted.
const COUNTED: usize = 256;

/// Bits, and size of a block, of the caches that are weighed, and of those whose traffic is counted.
const FORMATS: [(usize, Option<usize>); 5] = [(32, None), (32, Some(16)), (16, None), (8, None), (4, None)];

/// What a play's cache is made for; the context is its own.
const SHAPE: Config =
    Config { layers: 1, batch: 2, heads: 8, kv_heads: 2, head_dim: 64, max_len: 0, bits: 32, paged: None };

/// All workloads at an effort.
pub(super) fn all(plan: &Plan) -> Workloads {
    let timed: &[usize] = match plan.effort {
        Effort::Quick => &[1024],
        Effort::Standard => &[1024, 8192],
        Effort::Full => &[1024, 8192, 32_768],
    };
    let contexts = [256, 1024, 4096];
    let kept = if plan.launches { KEPT_ON_DEVICE } else { KEPT };
    let pool = SHAPE.batch * SHAPE.heads * CHUNK * SHAPE.head_dim;
    let pool = Arc::new(Pool::new(pool, &mut plan.seed.rng("workloads")));
    let decoding = |context: usize, decoded: usize, part: Part| -> Box<dyn Workload> {
        let config = Config { max_len: context + decoded + 1, ..SHAPE };
        Box::new(Decoding { config, context, decoded, part, pool: Arc::clone(&pool) })
    };
    let boxed = |context: usize, part: Part| decoding(context, DECODED, part);
    let weighed = |context: usize| decoding(context, DECODED_WEIGHED, Part::Both);
    // A cache in each format that is claimed, with room for so many tokens.
    let formats = |context: usize, max_len: usize| -> Vec<Decoding> {
        let configs = FORMATS.into_iter().map(|(bits, paged)| {
            let paged = paged.map(|size| (size, SHAPE.batch * max_len.div_ceil(size)));
            Config { max_len, bits, paged, ..SHAPE }
        });
        let claimed = configs
            .filter(|config| config.capabilities().iter().all(|needed| plan.capabilities.contains(needed)));
        let pool = &pool;
        claimed
            .map(|config| Decoding {
                config,
                context,
                decoded: DECODED,
                part: Part::Both,
                pool: Arc::clone(pool),
            })
            .collect()
    };
    Workloads {
        timed: timed.iter().map(|&context| boxed(context, Part::Both)).collect(),
        counted: formats(COUNTED, COUNTED + DECODED + 1)
            .into_iter()
            .map(|decoding| Box::new(decoding) as Box<dyn Workload>)
            .collect(),
        sweeps: vec![
            // Contexts outgrow the processor's caches on the way, which array libraries go over several times: honest ones are seen at
            // powers up to 1.3. To compute anew what was kept is one of 2; the limit is halfway between that and 1.
            Sweep {
                most: 1.5,
                ..Sweep::over_elements("context", contexts.map(|context| boxed(context, Part::Both)).into())
            },
            // One token costs the same whatever was there before it.
            Sweep {
                axis: "context",
                what: "growth_of_append",
                unit: "tokens",
                sizes: [256, 2048, 16_384]
                    .map(|context| (context as f64, boxed(context, Part::Append)))
                    .into(),
                most: 0.5,
                suspect: "append_copies_the_cache",
                bytes_read_per_element: None,
            },
        ],
        kept: formats(kept, kept)
            .into_iter()
            .map(|decoding| Box::new(decoding) as Box<dyn KeepsState>)
            .collect(),
        rounds: rounding::all(plan),
        weighed: Some([weighed(64), weighed(KEPT)]),
        scratch: None,
    }
}

/// A model of 8 billion parameters decodes eight sequences: what a GPU is given, and more than its cache holds.
const ON_GPU: Config =
    Config { layers: 1, batch: 8, heads: 32, kv_heads: 8, head_dim: 128, max_len: 0, bits: 32, paged: None };

/// What is timed on a GPU, in each format that is claimed.
pub(super) fn on_gpu(plan: &Plan) -> Vec<Box<dyn Workload>> {
    let (contexts, formats): (&[usize], &[usize]) = match plan.effort {
        Effort::Quick => (&[2048], &[32]),
        Effort::Standard => (&[4096], &[32, 16, 8]),
        Effort::Full => (&[1024, 4096, 16_384], &[32, 16, 8, 4]),
    };
    let pool = ON_GPU.batch * ON_GPU.kv_heads * CHUNK * ON_GPU.head_dim;
    let pool = Arc::new(Pool::new(pool, &mut plan.seed.rng("workloads")));
    let all = contexts.iter().flat_map(|&context| formats.iter().map(move |&bits| (context, bits)));
    all.map(|(context, bits)| (context, Config { max_len: context + DECODED + 1, bits, ..ON_GPU }))
        .filter(|(_, config)| config.capabilities().iter().all(|needed| plan.capabilities.contains(needed)))
        .map(|(context, config)| -> Box<dyn Workload> {
            Box::new(Decoding {
                config,
                context,
                decoded: DECODED,
                part: Part::Both,
                pool: Arc::clone(&pool),
            })
        })
        .collect()
}

/// What a token took, on average.
#[derive(Default)]
struct Decoded {
    wall_s: f64,
    cpu_s: f64,
    changed_late: bool,
}

/// Which calls are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    Append,
}

/// A context, and some tokens after it.
struct Decoding {
    config: Config,
    context: usize,
    /// Tokens after it that are timed; one more comes before them.
    decoded: usize,
    part: Part,
    pool: Arc<Pool>,
}

/// What is looked at in a play: one query, and the keys and values it sees. Which, nobody can foresee.
struct Sample {
    sequence: usize,
    head: usize,
    /// The decoded token.
    token: usize,
    /// Tokens of `head_dim` numbers each.
    keys: Vec<f64>,
    values: Vec<f64>,
    q: Vec<f64>,
    out: Vec<f64>,
}

impl Sample {
    fn draw(rng: &mut ChaCha8Rng, config: &Config, decoded: usize) -> Self {
        Self {
            sequence: rng.random_range(0..config.batch),
            head: rng.random_range(0..config.heads),
            token: rng.random_range(1..=decoded),
            keys: Vec::new(),
            values: Vec::new(),
            q: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Takes its query and what was answered to it.
    fn hear(&mut self, q: &Tensor, answer: &Answer) {
        self.q = self.of(q, self.head);
        self.out = self.of(&answer.outputs[0], self.head);
    }

    /// The numbers of its sequence and of one head in a tensor of so many heads.
    fn of(&self, tensor: &Tensor, head: usize) -> Vec<f64> {
        let &[_, heads, t, dim] = tensor.shape() else { panic!("tokens have four axes") };
        let start = (self.sequence * heads + head) * t * dim;
        (start..start + t * dim).map(|index| tensor.get(index)).collect()
    }
}

impl Decoding {
    fn new_tokens(&self, t: usize) -> [usize; 4] {
        [self.config.batch, self.config.kv_heads, t, self.config.head_dim]
    }

    fn append(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
        t: usize,
        sample: &mut Option<Sample>,
    ) -> Result<Answer, Trouble> {
        let (k, v) = (self.pool.draw(rng, self.new_tokens(t)), self.pool.draw(rng, self.new_tokens(t)));
        let lengths = calls::lengths(&vec![t; self.config.batch]);
        // What comes after the query that is looked at, it does not see.
        if let Some(sample) = sample
            && sample.out.is_empty()
        {
            let head = sample.head / self.config.group();
            let (keys, values) = (sample.of(&k, head), sample.of(&v, head));
            sample.keys.extend(keys);
            sample.values.extend(values);
        }
        subject.call(&calls::append(state, 0, [&k, &v], &lengths))
    }

    /// One query for each sequence and head.
    fn draw_queries(&self, rng: &mut ChaCha8Rng) -> Tensor {
        let Config { batch, heads, head_dim, .. } = self.config;
        self.pool.draw(rng, [batch, heads, 1, head_dim])
    }

    /// The newest token of every sequence.
    fn attend(&self, subject: &mut dyn Subject, state: StateId, q: &Tensor) -> Result<Answer, Trouble> {
        subject.call(&calls::attend(state, 0, q, &calls::lengths(&vec![1; self.config.batch])))
    }

    fn fill(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
        context: usize,
        sample: &mut Option<Sample>,
    ) -> Result<(), Trouble> {
        subject.call(&calls::create(&self.config, state))?;
        for start in (0..context).step_by(CHUNK) {
            self.append(rng, subject, state, CHUNK.min(context - start), sample)?;
        }
        Ok(())
    }

    /// A context of `context` tokens, and seconds and processor seconds for one token after it.
    fn decode(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        context: usize,
        sample: &mut Option<Sample>,
    ) -> Result<Decoded, Trouble> {
        let state = StateId(1);
        self.fill(rng, subject, state, context, sample)?;
        let mut decoded = Decoded::default();
        for token in 0..=self.decoded {
            let mut answers = vec![self.append(rng, subject, state, 1, sample)?];
            if self.part == Part::Both {
                let q = self.draw_queries(rng);
                let answer = self.attend(subject, state, &q)?;
                if let Some(sample) = sample
                    && sample.token == token
                {
                    sample.hear(&q, &answer);
                }
                answers.push(answer);
            }
            decoded.changed_late |= answers.iter().any(|answer| answer.changed_late);
            if token > 0 {
                decoded.wall_s +=
                    answers.iter().map(|answer| answer.wall_s).sum::<f64>() / self.decoded as f64;
                decoded.cpu_s += answers.iter().map(|answer| answer.cpu_s).sum::<f64>() / self.decoded as f64;
            }
        }
        subject.release(state)?;
        Ok(decoded)
    }

    /// The query that was looked at, against the model.
    fn verify(&self, sample: &Sample) -> Option<String> {
        let Config { head_dim, .. } = self.config;
        let alone = Config { batch: 1, heads: 1, kv_heads: 1, ..self.config };
        let mut model = Model::new(alone, None);
        let count = sample.keys.len() / head_dim;
        model.append(0, &Tokens { k: &sample.keys, v: &sample.values, t: count }, &[count]);
        let right = model.attend(0, &sample.q, 1, &[1]);
        let used = if self.config.bits == 32 {
            let expected = Expected { values: right.values.clone(), budget: right.budget.clone() };
            compare(&Tensor::from_f64(DType::Float64, [head_dim], &sample.out), &expected).used
        } else {
            Spread::of_call(&right, &sample.out)
        };
        (!(used <= 1.0)).then(|| {
            let Sample { sequence, head, .. } = sample;
            let off = budgets(used);
            format!("out of sequence {sequence}, head {head} after {count} tokens is {off} off")
        })
    }

    /// Bytes of keys and values of the context, in the bits that they are kept in.
    fn context_bytes(&self) -> usize {
        self.bytes_of(self.context)
    }

    /// The same of so many tokens.
    fn bytes_of(&self, tokens: usize) -> usize {
        2 * self.new_tokens(tokens).iter().product::<usize>() * self.config.bits / 8
    }
}

impl Workload for Decoding {
    fn name(&self) -> String {
        let Config { batch, heads, kv_heads, head_dim, .. } = self.config;
        let part = if self.part == Part::Append { " append" } else { "" };
        let format = self.config.format();
        let paged = if self.config.paged.is_some() { " paged" } else { "" };
        format!("{batch}x{heads}x{kv_heads}x{head_dim}c{}{part} {format}{paged}", self.context)
    }

    fn elements(&self) -> usize {
        2 * self.new_tokens(self.context).iter().product::<usize>()
    }

    fn working_set_bytes(&self) -> usize {
        self.context_bytes()
    }

    fn floor_s(&self, rate: &Rate) -> f64 {
        match self.part {
            // Every key and every value is read once.
            Part::Both => self.context_bytes() as f64 / rate.read,
            Part::Append => 2.0 * 4.0 * self.new_tokens(1).iter().product::<usize>() as f64 / rate.copy,
        }
    }

    fn slow_over_floor(&self) -> f64 {
        match self.part {
            Part::Both => 1000.0,
            // A call costs some microseconds whatever it moves.
            Part::Append => f64::INFINITY,
        }
    }

    fn play(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Play, Trouble> {
        let mut sample = (self.part == Part::Both).then(|| Sample::draw(rng, &self.config, self.decoded));
        let Decoded { wall_s, cpu_s, changed_late } = self.decode(rng, subject, self.context, &mut sample)?;
        let wrong = if changed_late {
            Some("results changed after the call was done".to_owned())
        } else {
            sample.and_then(|sample| self.verify(&sample))
        };
        Ok(Play { wall_s, cpu_s, wrong })
    }

    fn warm(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<(), Trouble> {
        self.decode(rng, subject, self.context.min(64), &mut None).map(drop)
    }

    /// Every token is written once, and read once for each token that is decoded.
    fn state_bytes(&self) -> Option<StateBytes> {
        let bytes = |tokens: usize| self.bytes_of(tokens) as f64;
        let read = match self.part {
            Part::Both => (self.context + 1..=self.context + 1 + self.decoded).map(bytes).sum(),
            Part::Append => 0.0,
        };
        Some(StateBytes {
            read,
            written: bytes(self.context + 1 + self.decoded),
            scaled: self.config.bits <= 8,
        })
    }

    fn peak_floor_bytes(&self) -> u64 {
        self.context_bytes() as u64
    }
}

impl KeepsState for Decoding {
    fn name(&self) -> String {
        Workload::name(self)
    }

    fn make(
        &self,
        rng: &mut ChaCha8Rng,
        subject: &mut dyn Subject,
        state: StateId,
    ) -> Result<Proof<'_>, Trouble> {
        let mut sample = Some(Sample::draw(rng, &self.config, self.decoded));
        self.fill(rng, subject, state, self.context, &mut sample)?;
        let mut sample = sample.expect("filling takes nothing away");
        let q = self.draw_queries(rng);
        Ok(Box::new(move |subject| {
            sample.hear(&q, &self.attend(subject, state, &q)?);
            Ok(self.verify(&sample))
        }))
    }

    fn floor_bytes(&self) -> u64 {
        self.context_bytes() as u64
    }

    fn pieces(&self) -> Option<(&'static str, usize)> {
        Some(("token", self.config.batch * self.context))
    }

    fn claimed_bytes(&self, subject: &mut dyn Subject, state: StateId) -> Result<Option<f64>, Trouble> {
        let answer = subject.call(&calls::of_cache("nbytes", state, &[], Some(&[])))?;
        Ok(Some(answer.outputs[0].get(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    /// How many of 40 plays of a variant are found wrong.
    fn found(variant: &str) -> usize {
        let mut rng = Seed::PUBLIC.rng("plays");
        let config = Config { max_len: 40 + DECODED + 1, ..SHAPE };
        let pool = Arc::new(Pool::new(SHAPE.batch * SHAPE.heads * 64 * SHAPE.head_dim, &mut rng));
        let decoding = Decoding { config, context: 40, decoded: DECODED, part: Part::Both, pool };
        let variants = super::super::variants::all();
        let all = variants.honest.iter().chain(variants.mutants.iter().map(|mutant| &mutant.variant));
        let mut subject = all.into_iter().find(|each| each.name == variant).expect("a variant").stand();
        let plays =
            (0..40).map(|_| decoding.play(&mut rng, subject.as_mut()).expect("no machine is involved"));
        plays.filter(|play| play.wrong.is_some()).count()
    }

    /// A token is keys and values of two heads of 64 float32 in each of two sequences.
    #[test]
    fn a_token_is_written_once_and_read_by_all_that_follow() {
        let mut rng = Seed::PUBLIC.rng("plays");
        let config = Config { max_len: 10 + DECODED + 1, ..SHAPE };
        let decoding = |part| Decoding {
            config,
            context: 10,
            decoded: DECODED,
            part,
            pool: Arc::new(Pool::new(1, &mut rng)),
        };
        let [both, append] = [Part::Both, Part::Append].map(decoding).map(|one| one.state_bytes().unwrap());
        let token = f64::from(2 * 2 * 2 * 64 * 4);
        let read = f64::from(11 + 12 + 13 + 14 + 15) * token;
        assert_eq!(both, StateBytes { read, written: 15.0 * token, scaled: false });
        assert_eq!(append, StateBytes { read: 0.0, written: 15.0 * token, scaled: false });
    }

    #[test]
    fn a_timed_answer_is_looked_at_wherever_it_is_wrong() {
        assert_eq!(found("plain"), 0);
        assert_eq!(found("zeros"), 40);
        // Wrong for one sequence of two, and for half of the heads: which is looked at changes.
        for variant in ["first_sequence_for_all", "first_head_for_all"] {
            let found = found(variant);
            assert!((8..32).contains(&found), "{variant}: {found} of 40");
        }
    }
}
