//! Adapters of wgpu in `thalweg doctor`: their chips, APIs and drivers, and what to install where there is none.

use thalweg::wgpu::{adapters, advice};

/// Prints the section of adapters.
pub fn show() {
    let all = adapters();
    if all.is_empty() {
        crate::out!("adapters      none: {}", advice());
        return;
    }
    crate::out!("adapters");
    for adapter in all {
        crate::out!("  {:<11} {}", adapter.device, adapter.about);
        if let Some(why) = adapter.lacks {
            crate::out!("              cannot be used: {why}");
        }
    }
}
