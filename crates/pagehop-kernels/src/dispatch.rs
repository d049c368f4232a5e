//! Chooses an instruction set once, and proves in the type system that the CPU has it.
//!
//! A [`Kernels`] is one byte that names an instruction set. It can only be made after detection.
//! Every kernel is a method on it; the free functions at the crate root use [`Kernels::active`].
//! Dispatch adds one relaxed load and one well-predicted branch to each call.
//!
//! The SIMD functions are methods of the tokens [`Avx2`] and [`Avx512`], which exist only where
//! detection succeeded. So code that calls a `#[target_feature]` function through a token needs no
//! `unsafe`.

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that the kernels are written for, ordered from narrow to wide registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust, for the instruction set that the crate was compiled for.
    Portable,
    /// NEON with the CRC instructions: ARM CPUs of 64 bits since ARMv8.1. If the compiler makes an
    /// equally good kernel from plain Rust, the kernel of [`Isa::Portable`] is used.
    Neon,
    /// AVX2 with FMA, F16C, POPCNT and SSE4.2: x86-64-v3, any x86 server since 2013.
    Avx2,
    /// AVX-512 F, BW and VL, which Intel's servers had before Ice Lake. Only edge scoring uses it.
    /// All other kernels are those of [`Isa::Avx2`].
    Avx512Bw,
    /// AVX-512 F, BW, DQ, VL, VNNI and VPOPCNTDQ: Intel since Ice Lake, AMD since Zen 4.
    Avx512,
}

impl Isa {
    /// Every instruction set, narrowest first.
    pub const ALL: [Self; 5] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512Bw, Self::Avx512];

    /// The instruction sets this CPU has, narrowest first; `Portable` is always among them.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|&isa| detect(isa))
    }

    /// The name of the instruction set in `PAGEHOP_ISA` and in benchmarks.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512Bw => "avx512bw",
            Self::Avx512 => "avx512",
        }
    }
}

/// The kernels of one instruction set that this CPU has.
///
/// Every free function of this crate is also a method here, with the same contract. Tests and
/// benchmarks use it to choose an instruction set; all other code calls the free functions.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    tier: Tier,
}

/// The token of an instruction set, on which its kernels are methods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512Bw(Avx512Bw),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Proof that the CPU has NEON and the CRC instructions. Made only in this file, after detection.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

/// Proof that the CPU has AVX2, FMA, F16C, POPCNT and SSE4.2. Made only in this file, after
/// detection.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Proof that the CPU has AVX-512 F, BW and VL, and all that [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bw(());

#[cfg(target_arch = "x86_64")]
impl Avx512Bw {
    /// The token of the narrower set.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }

    /// This token. `on_tier` calls it for kernels that have a version of their own for this set.
    pub(crate) fn avx512bw(self) -> Self {
        self
    }
}

/// Proof that the CPU has AVX-512 F, BW, DQ, VL, VNNI and VPOPCNTDQ, and all that [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The token of the narrower set, for kernels that gain nothing from wider registers.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }
}

/// The index of the active instruction set in [`Isa::ALL`], or `UNDECIDED`.
static ACTIVE: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = u8::MAX;

impl Kernels {
    /// The kernels that the free functions use: the widest instruction set of this CPU, or the one
    /// that the environment variable `PAGEHOP_ISA` names (`portable`, `neon`, `avx2`, `avx512bw` or
    /// `avx512`).
    ///
    /// The variable is read once per process. An unknown name, or a set that this CPU lacks, is
    /// ignored.
    #[inline]
    pub fn active() -> Self {
        match ACTIVE.load(Ordering::Relaxed) {
            UNDECIDED => Self::decide(),
            // Sound because only `decide` stores a value here, and only one that detection found.
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
            #[cfg(target_arch = "aarch64")]
            Tier::Neon(_) => Isa::Neon,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512Bw(_) => Isa::Avx512Bw,
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

    /// Makes the token. `isa` must have been detected.
    #[inline]
    fn detected(isa: Isa) -> Self {
        let tier = match isa {
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => Tier::Neon(Neon(())),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Tier::Avx2(Avx2(())),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bw => Tier::Avx512Bw(Avx512Bw(())),
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
    let avx512bw = || avx2() && has!("avx512f") && has!("avx512bw") && has!("avx512vl");
    match isa {
        Isa::Portable => true,
        Isa::Neon => false,
        Isa::Avx2 => avx2(),
        Isa::Avx512Bw => avx512bw(),
        Isa::Avx512 => avx512bw() && has!("avx512dq") && has!("avx512vnni") && has!("avx512vpopcntdq"),
    }
}

#[cfg(target_arch = "aarch64")]
fn detect(isa: Isa) -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    isa == Isa::Portable || isa == Isa::Neon && has!("neon") && has!("crc")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect(isa: Isa) -> bool {
    isa == Isa::Portable
}

/// Whether this is an x86-64 CPU without the instructions of x86-64-v2. The kernels run on it, but
/// other libraries of the program may not.
pub fn is_before_x86_64_v2() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        !(has!("ssse3") && has!("sse4.1") && has!("sse4.2") && has!("popcnt") && has!("cmpxchg16b"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Calls `$kernel` of the instruction set of `$kernels`: a function of the caller's `portable`
/// module, or a method that [`on_token`] added to a token. `Isa::Avx512Bw` uses the kernel of
/// `Isa::Avx2`, or its own if the next argument is `avx512bw`. `Isa::Neon` uses plain Rust, or its
/// own kernel if the last argument is `neon`.
macro_rules! on_tier {
    ($kernels:expr, $kernel:ident($($arg:expr),*)) => {
        $crate::dispatch::on_tier!($kernels, $kernel($($arg),*), avx2, portable)
    };
    ($kernels:expr, $kernel:ident($($arg:expr),*), $of_avx512bw:ident, $of_neon:ident) => {
        match $kernels.tier() {
            $crate::dispatch::Tier::Portable => portable::$kernel($($arg),*),
            #[cfg(target_arch = "aarch64")]
            $crate::dispatch::Tier::Neon(_token) => {
                $crate::dispatch::on_neon!($of_neon, _token, $kernel($($arg),*))
            }
            #[cfg(target_arch = "x86_64")]
            $crate::dispatch::Tier::Avx2(token) => token.$kernel($($arg),*),
            #[cfg(target_arch = "x86_64")]
            $crate::dispatch::Tier::Avx512Bw(token) => token.$of_avx512bw().$kernel($($arg),*),
            #[cfg(target_arch = "x86_64")]
            $crate::dispatch::Tier::Avx512(token) => token.$kernel($($arg),*),
        }
    };
}
pub(crate) use on_tier;

/// The kernel of [`Isa::Neon`]: its own, or the one in plain Rust.
#[cfg(target_arch = "aarch64")]
macro_rules! on_neon {
    (portable, $token:ident, $kernel:ident($($arg:expr),*)) => { portable::$kernel($($arg),*) };
    (neon, $token:ident, $kernel:ident($($arg:expr),*)) => { $token.$kernel($($arg),*) };
}
#[cfg(target_arch = "aarch64")]
pub(crate) use on_neon;

/// Makes `#[target_feature]` functions methods of the token that proves that the CPU has the
/// features.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! on_token {
    ($token:ident: $(fn $kernel:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)+) => {
        impl $crate::dispatch::$token {
            $(
                #[inline]
                pub(super) fn $kernel(self, $($arg: $type),*) $(-> $answer)? {
                    // SAFETY: the token is made only after `detect` found every feature of its
                    // instruction set, and the functions of this file enable no other features.
                    unsafe { $kernel($($arg),*) }
                }
            )+
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use on_token;
