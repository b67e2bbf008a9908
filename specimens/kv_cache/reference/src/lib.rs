//! `tribunal-kernels` behind the C contract of the challenge `kv_cache`.

mod contract;

use std::ffi::{c_char, c_void};

use contract::*;
use tribunal_kernels::attention::{Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};

/// A cache, and how many heads its queries have.
struct State {
    cache: KvCache,
    heads: usize,
}

/// What a call came to, as the contract has it.
///
/// # Safety
/// `message` is that of a record as the contract describes it.
unsafe fn finish(result: Result<(), String>, message: *mut c_char) -> i32 {
    match result {
        Ok(()) => 0,
        // SAFETY: the caller's promise.
        Err(why) => unsafe { refuse(message, &why) },
    }
}

fn count(number: i64, name: &str) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("{name} must not be negative, got {number}"))
}

fn counts(numbers: &[i64]) -> Result<Vec<usize>, String> {
    numbers.iter().map(|&number| count(number, "a length")).collect()
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_create(args: *mut CreateArgs) -> i32 {
    // SAFETY: the caller keeps the contract: the record is valid for the call.
    let args = unsafe { &mut *args };
    // SAFETY: as above.
    unsafe { finish(create(args), args.message) }
}

fn create(args: &mut CreateArgs) -> Result<(), String> {
    let format = match args.bits {
        32 => Format::F32,
        16 => Format::F16,
        8 => Format::Int8,
        4 => Format::Int4,
        bits => return Err(format!("no format has {bits} bits")),
    };
    let layout = match count(args.block_size, "block_size")? {
        0 => Layout::Contiguous,
        block_len => Layout::Paged { block_len, blocks: count(args.num_blocks, "num_blocks")? },
    };
    let (heads, kv_heads) = (count(args.heads, "heads")?, count(args.kv_heads, "kv_heads")?);
    if kv_heads == 0 || heads % kv_heads != 0 {
        return Err(format!("{heads} heads are no multiple of {kv_heads}"));
    }
    let config = Config {
        layers: count(args.layers, "layers")?,
        sequences: count(args.batch, "batch")?,
        kv_heads,
        head_dim: count(args.head_dim, "head_dim")?,
        max_len: count(args.max_len, "max_len")?,
        format,
        layout,
    };
    let cache = KvCache::new(config).map_err(|error| error.to_string())?;
    args.cache = Box::into_raw(Box::new(State { cache, heads })).cast::<c_void>();
    Ok(())
}

/// # Safety
/// `cache` was made by [`tribunal_create`] and not released, and nobody else uses it during the call.
unsafe fn state<'a>(cache: *mut c_void) -> &'a mut State {
    // SAFETY: the caller's promise.
    unsafe { &mut *cache.cast::<State>() }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_append(args: *mut AppendArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record, state and tensors are valid for the call.
    let (args, state, k, v, lengths) = unsafe {
        let args = &mut *args;
        let (k, v) = ((*args.k).elements::<f32>(), (*args.v).elements::<f32>());
        let (lengths, state) = ((*args.lengths).elements::<i64>(), state(args.cache));
        (args, state, k, v, lengths)
    };
    let result = count(args.layer, "layer").and_then(|layer| {
        state.cache.append(layer, k, v, &counts(lengths)?).map_err(|error| error.to_string())
    });
    // SAFETY: as above.
    unsafe { finish(result, args.message) }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_attend(args: *mut AttendArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record, state and tensors are valid for the call.
    let (args, state, q, lengths, out) = unsafe {
        let args = &mut *args;
        let (q, lengths) = ((*args.q).elements::<f32>(), (*args.lengths).elements::<i64>());
        let (out, state) = ((*args.out).elements_mut::<f32>(), state(args.cache));
        (args, state, q, lengths, out)
    };
    let result = count(args.layer, "layer").and_then(|layer| {
        let queries = Queries { heads: state.heads, q, lengths: &counts(lengths)? };
        let outputs = Outputs { out, lse: None };
        attend(&state.cache, layer, queries, outputs, &Options::default()).map_err(|error| error.to_string())
    });
    // SAFETY: as above.
    unsafe { finish(result, args.message) }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_lengths(args: *mut LengthsArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record, state and tensors are valid for the call.
    let (args, state, lengths) = unsafe {
        let args = &mut *args;
        let (lengths, state) = ((*args.lengths).elements_mut::<i64>(), state(args.cache));
        (args, state, lengths)
    };
    let sequences = state.cache.config().sequences;
    let result = lengths.chunks_mut(sequences).enumerate().try_for_each(|(layer, lengths)| {
        let held = state.cache.lengths(layer).map_err(|error| error.to_string())?;
        lengths.iter_mut().zip(held).for_each(|(length, &held)| *length = held as i64);
        Ok(())
    });
    // SAFETY: as above.
    unsafe { finish(result, args.message) }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_clear(args: *mut ClearArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record and state are valid for the call.
    let (args, state) = unsafe { (&mut *args, state((*args).cache)) };
    let result = count(args.sequence, "sequence")
        .and_then(|sequence| state.cache.release(sequence).map_err(|error| error.to_string()));
    // SAFETY: as above.
    unsafe { finish(result, args.message) }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_fork(args: *mut ForkArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record and state are valid for the call.
    let (args, state) = unsafe { (&mut *args, state((*args).cache)) };
    let result = count(args.source, "source").and_then(|source| {
        let target = count(args.target, "target")?;
        state.cache.fork(source, target).map_err(|error| error.to_string())
    });
    // SAFETY: as above.
    unsafe { finish(result, args.message) }
}

/// # Safety
/// `args` is a record as the contract describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_nbytes(args: *mut NbytesArgs) -> i32 {
    // SAFETY: the caller keeps the contract: record, state and tensors are valid for the call.
    unsafe {
        let args = &mut *args;
        (*args.bytes).elements_mut::<i64>()[0] = state(args.cache).cache.nbytes() as i64;
    }
    0
}

/// # Safety
/// `cache` was made by [`tribunal_create`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_release(cache: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(cache.cast::<State>()) });
}
