//! Shaders: a source, and its pipelines.
//!
//! A source names memory by kernel argument: `memory_5` is the chunk that the address in argument word 5 is in. Which
//! arguments are in the same chunk is known at each launch only. A pipeline is compiled for each such *pattern*: nearly
//! always all arguments are in one chunk.

use super::WgpuState;
use crate::adapters::ready;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_gpu::runtime::Module;
use thalweg_runtime::Error;
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType, ComputePipeline,
    ComputePipelineDescriptor, ErrorFilter, Features, PipelineCache, PipelineCacheDescriptor,
    PipelineCompilationOptions, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource,
    ShaderStages,
};

/// First line of a source that cannot be compiled, before the reason.
pub const REFUSED: &str = "// refused: ";
/// Line of a source that lists the argument words with addresses.
pub const MEMORY: &str = "// memory:";

/// Line of a source whose memory is vectors of 16 bytes.
pub const VECTORS: &str = "// memory in vectors";

/// Declaration of the arguments in a source.
pub const ARGUMENTS: &str = "var<uniform> a:";

/// A shader with its pipelines.
#[derive(Debug)]
pub struct Shader {
    source: String,
    entry: String,
    /// Cache of the driver's own code for the shader's pipelines; `None` where the adapter offers none.
    cache: Option<PipelineCache>,
    /// Argument words with addresses.
    pub words: Vec<usize>,
    /// Pipelines by pattern: for each word, the number of its chunk among the launch's chunks.
    pipelines: Mutex<FxHashMap<Vec<u8>, ComputePipeline>>,
}

impl Module for Shader {}

impl Shader {
    /// Creates a shader from a source, of which nothing is compiled yet.
    pub fn new(source: String, entry: &str, cache: Option<PipelineCache>) -> Shader {
        let line = source.lines().find_map(|line| line.strip_prefix(MEMORY)).unwrap_or_default();
        let words = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Shader { source, entry: entry.into(), cache, words, pipelines: Mutex::default() }
    }

    /// Image of the shader for the disk cache: its source, then the driver's own code, if the adapter tells it.
    pub fn image(&self) -> Vec<u8> {
        let own = self.cache.as_ref().and_then(PipelineCache::get_data).unwrap_or_default();
        let length = self.source.len() as u64;
        [&length.to_le_bytes()[..], self.source.as_bytes(), &own].concat()
    }

    /// Source for a pattern.
    fn text(&self, pattern: &[u8], arguments_in_storage: bool) -> String {
        let mut text = String::new();
        let bindings = pattern.iter().map(|n| n + 1).max().unwrap_or(0);
        let element = match () {
            () if self.source.contains("(&memory_") => "atomic<u32>",
            () if self.source.contains(VECTORS) => "vec4<u32>",
            () => "u32",
        };
        for n in 0..bindings {
            let _ =
                writeln!(text, "@group(0) @binding({}) var<storage, read_write> chunk{n}: array<{element}>;", n + 1);
        }
        let mut own = self.source.clone();
        // Longer numbers first: `memory_1` is the beginning of `memory_12`.
        let mut all: Vec<(usize, u8)> = self.words.iter().copied().zip(pattern.iter().copied()).collect();
        all.sort_unstable_by_key(|(word, _)| std::cmp::Reverse(*word));
        for (word, n) in all {
            own = own.replace(&format!("memory_{word}["), &format!("chunk{n}["));
        }
        if arguments_in_storage {
            own = own.replacen(ARGUMENTS, "var<storage, read> a:", 1);
        }
        text + &own
    }

    /// Pipeline for a pattern, compiled now if it is new.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn pipeline(&self, state: &WgpuState, pattern: &[u8]) -> Result<ComputePipeline, Error> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pipelines.get(pattern) {
            return Ok(known.clone());
        }
        let pipeline = self.compile(state, pattern)?;
        pipelines.insert(pattern.to_vec(), pipeline.clone());
        Ok(pipeline)
    }

    /// Compiles the pipeline for a launch whose arguments are all in one chunk.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn check(&self, state: &WgpuState) -> Result<(), Error> {
        self.pipeline(state, &vec![0; self.words.len()]).map(|_| ())
    }

    fn compile(&self, state: &WgpuState, pattern: &[u8]) -> Result<ComputePipeline, Error> {
        let refused = |message: String| Error::Compile { device: state.name.clone(), message };
        if let Some(why) = self.source.strip_prefix(REFUSED) {
            return Err(refused(why.lines().next().unwrap_or_default().into()));
        }
        let bindings = pattern.iter().map(|n| *n as usize + 1).max().unwrap_or(0);
        let device = &state.device;
        let scope = device.push_error_scope(ErrorFilter::Validation);
        let source = ShaderSource::Wgsl(Cow::Owned(self.text(pattern, state.arguments_in_storage)));
        let descriptor = ShaderModuleDescriptor { label: Some(&self.entry), source };
        // SAFETY: indices are checked before a launch, as in all kernels of this workspace, and all loops end.
        let module = unsafe { device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked()) };
        if let Some(error) = ready(scope.pop()).flatten() {
            return Err(refused(format!("{error}")));
        }
        let scope = device.push_error_scope(ErrorFilter::Validation);
        let layout = state.layout(bindings)?;
        let layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: Some(&self.entry),
            layout: Some(&layout),
            module: &module,
            entry_point: Some(&self.entry),
            compilation_options: PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..PipelineCompilationOptions::default()
            },
            cache: self.cache.as_ref(),
        });
        match ready(scope.pop()).flatten() {
            Some(error) => Err(refused(format!("{error}"))),
            None => Ok(pipeline),
        }
    }
}

/// Name of a source's entry point.
pub fn entry(source: &str) -> Option<&str> {
    let (_, rest) = source.split_once("@compute")?;
    let (name, _) = rest.split_once("fn ")?.1.split_once('(')?;
    Some(name)
}

/// Source and the driver's own code of an image that [`Shader::image`] has made; `None` for other bytes.
pub fn parts(image: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = image.split_first_chunk()?;
    let (source, own) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((String::from_utf8(source.to_vec()).ok()?, own))
}

/// Pipeline cache that begins with the driver's own code of an earlier process; `None` without the feature.
pub fn cache(device: &wgpu::Device, data: &[u8]) -> Option<PipelineCache> {
    let data = (!data.is_empty()).then_some(data);
    let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
    // SAFETY: the bytes are of `PipelineCache::get_data`, and the disk cache checks that they are as they were.
    device.features().contains(Features::PIPELINE_CACHE).then(|| unsafe { device.create_pipeline_cache(&descriptor) })
}

/// Layout of the bindings of a launch: arguments, and this many chunks.
pub fn layout(device: &wgpu::Device, chunks: usize, arguments_in_storage: bool) -> BindGroupLayout {
    let entry = |binding: u32, ty, has_dynamic_offset| BindGroupLayoutEntry {
        binding,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
        count: None,
    };
    let storage = BufferBindingType::Storage { read_only: false };
    let chunks = (1..=chunks as u32).map(|binding| entry(binding, storage, false));
    let arguments = match arguments_in_storage {
        true => BufferBindingType::Storage { read_only: true },
        false => BufferBindingType::Uniform,
    };
    let entries: Vec<_> = std::iter::once(entry(0, arguments, true)).chain(chunks).collect();
    device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries })
}

/// Numbers chunks in the order of their first use: returns the chunks, and the pattern of the words.
pub fn pattern(chunks: impl Iterator<Item = usize>) -> (Vec<usize>, Vec<u8>) {
    let (mut all, mut pattern) = (vec![], vec![]);
    for chunk in chunks {
        let number = all.iter().position(|&c| c == chunk).unwrap_or_else(|| {
            all.push(chunk);
            all.len() - 1
        });
        pattern.push(number as u8);
    }
    (all, pattern)
}

/// Functions by handle, which a launch refers to.
pub type Shaders = FxHashMap<usize, Arc<Shader>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_source_and_code() {
        let source = "@compute @workgroup_size(64)\nfn map(@builtin(local_invocation_index) t: u32) {}";
        let mut image = Shader::new(source.into(), "map", None).image();
        image.extend([1, 2, 3]);
        assert_eq!(parts(&image), Some((source.into(), &[1u8, 2, 3][..])));
        assert_eq!(entry(source), Some("map"));
        assert_eq!(parts(&image[..20]), None);
    }
}
