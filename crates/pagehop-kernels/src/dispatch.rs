//! Chooses an instruction set once and proves it is there.
//!
//! A [`Kernels`] is one byte that names an instruction set and can only be made after detection. Every
//! kernel is a method on it; the free functions at the crate root use [`Kernels::active`]. A call costs one
//! relaxed load and a well-predicted branch on top of the kernel.
//!
//! The SIMD files hang their functions on [`Avx2`] and [`Avx512`], tokens that exist only where
//! detection succeeded, so that calling a `#[target_feature]` function needs no promise from the caller.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set the kernels are written for, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust for whatever the crate was compiled for.
    Portable,
    /// AVX2 with FMA, F16C, POPCNT and SSE4.2: x86-64-v3, any x86 server since 2013.
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VNNI and VPOPCNTDQ: Intel since Ice Lake, AMD since Zen 4.
    Avx512,
}

impl Isa {
    /// Every instruction set, narrowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The instruction sets this CPU has, narrowest first; `Portable` is always among them.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|&isa| detect(isa))
    }

    /// The instruction set's name as `PAGEHOP_ISA` and benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// The kernels of one instruction set that this CPU has.
///
/// Every free function of this crate is also a method here, with the same promise. Tests and benchmarks
/// use it to name an instruction set; everything else calls the free functions.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    tier: Tier,
}

/// What an instruction set's kernels hang on: evidence that the CPU has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Evidence that the CPU has AVX2, FMA, F16C, POPCNT and SSE4.2. Made only in this file, after detection.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Evidence that the CPU has AVX-512 F, BW, DQ, VL, VNNI and VPOPCNTDQ and everything [`Avx2`] stands for.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The evidence for the narrower set, for kernels that gain nothing from wider registers.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

/// The number of the active instruction set in [`Isa::ALL`], or `UNDECIDED`.
static ACTIVE: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = u8::MAX;

impl Kernels {
    /// The kernels that the free functions use: the widest instruction set of this CPU, or a narrower
    /// one if the environment variable `PAGEHOP_ISA` names it (`portable`, `avx2`, `avx512`).
    ///
    /// The variable is read once per process. A name this crate does not know, or one this CPU does
    /// not have, changes nothing.
    #[inline]
    pub fn active() -> Self {
        match ACTIVE.load(Ordering::Relaxed) {
            UNDECIDED => Self::decide(),
            // Only `decide` stores here, and it stores what detection found.
            isa => Self::detected(Isa::ALL[usize::from(isa)]),
        }
    }

    /// The kernels of `isa`, or `None` where the CPU lacks it.
    pub fn on(isa: Isa) -> Option<Self> {
        detect(isa).then(|| Self::detected(isa))
    }

    /// The instruction set these kernels use.
    pub fn isa(self) -> Isa {
        match self.tier {
            Tier::Portable => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512(_) => Isa::Avx512,
        }
    }

    #[inline]
    pub(crate) fn tier(self) -> Tier {
        self.tier
    }

    #[cold]
    fn decide() -> Self {
        let wanted = std::env::var("PAGEHOP_ISA").ok();
        let isa = Isa::available()
            .find(|isa| wanted.as_deref() == Some(isa.name()))
            .or_else(|| Isa::available().last())
            .unwrap_or(Isa::Portable);
        ACTIVE.store(isa as u8, Ordering::Relaxed);
        Self::detected(isa)
    }

    /// `isa` must have been detected: this is where evidence is made.
    #[inline]
    fn detected(isa: Isa) -> Self {
        let tier = match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Tier::Avx2(Avx2(())),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Tier::Avx512(Avx512(())),
            _ => Tier::Portable,
        };
        Self { tier }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect(isa: Isa) -> bool {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = || has!("avx2") && has!("fma") && has!("f16c") && has!("popcnt") && has!("sse4.2");
    match isa {
        Isa::Portable => true,
        Isa::Avx2 => avx2(),
        Isa::Avx512 => {
            avx2()
                && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512vnni")
                && has!("avx512vpopcntdq")
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect(isa: Isa) -> bool {
    isa == Isa::Portable
}

/// Calls `$kernel` of the instruction set that `$kernels` stands for: a function in the caller's `portable`
/// module, or a method that [`on_evidence`] hung on a token.
macro_rules! on_tier {
    ($kernels:expr, $kernel:ident($($arg:expr),*)) => {
        match $kernels.tier() {
            $crate::dispatch::Tier::Portable => portable::$kernel($($arg),*),
            #[cfg(target_arch = "x86_64")]
            $crate::dispatch::Tier::Avx2(token) => token.$kernel($($arg),*),
            #[cfg(target_arch = "x86_64")]
            $crate::dispatch::Tier::Avx512(token) => token.$kernel($($arg),*),
        }
    };
}
pub(crate) use on_tier;

/// Hangs `#[target_feature]` functions on the token that proves their features are there.
#[cfg(target_arch = "x86_64")]
macro_rules! on_evidence {
    ($token:ident: $(fn $kernel:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)+) => {
        impl $crate::dispatch::$token {
            $(
                #[inline]
                pub(super) fn $kernel(self, $($arg: $type),*) $(-> $answer)? {
                    // SAFETY: the token is made only after `detect` found every feature of its instruction
                    // set, and the functions of this file ask for no others.
                    unsafe { $kernel($($arg),*) }
                }
            )+
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use on_evidence;
