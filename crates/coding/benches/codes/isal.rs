//! ISA-L's erasure coding, opened at run time.

use core::ffi::{CStr, c_int, c_void};

type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type EncodeData =
    unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *const u8, *const *mut u8);
type InvertMatrix = unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int;

/// Holds the functions that are compared.
pub(crate) struct IsaL {
    init_tables: InitTables,
    encode_data: EncodeData,
    invert_matrix: InvertMatrix,
}

/// Tables and addresses of one encoding, made beforehand as ISA-L's users do.
pub(crate) struct Job<'a> {
    isal: &'a IsaL,
    bytes: c_int,
    tables: Vec<u8>,
    sources: Vec<*const u8>,
    dsts: Vec<*mut u8>,
}

impl IsaL {
    /// Opens the library, if it is installed.
    pub(crate) fn open() -> Option<Self> {
        // SAFETY: a library of C functions without initialisers; each symbol has the type of
        // isa-l.h.
        unsafe {
            let library = libc::dlopen(c"libisal.so.2".as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            let find = |name: &CStr| {
                let symbol = libc::dlsym(library, name.as_ptr());
                (!symbol.is_null()).then_some(symbol)
            };
            Some(Self {
                init_tables: core::mem::transmute::<*mut c_void, InitTables>(find(
                    c"ec_init_tables",
                )?),
                encode_data: core::mem::transmute::<*mut c_void, EncodeData>(find(
                    c"ec_encode_data",
                )?),
                invert_matrix: core::mem::transmute::<*mut c_void, InvertMatrix>(find(
                    c"gf_invert_matrix",
                )?),
            })
        }
    }

    /// Prepares combinations: `coefficients` has one row of `sources.len()` for each destination.
    pub(crate) fn job(
        &self,
        dsts: &mut [&mut [u8]],
        sources: &[&[u8]],
        coefficients: &[u8],
    ) -> Job<'_> {
        let (rows, count) = (dsts.len(), sources.len());
        assert!(coefficients.len() == rows * count);
        let bytes = dsts[0].len();
        assert!(sources.iter().all(|s| s.len() == bytes) && dsts.iter().all(|d| d.len() == bytes));
        let mut job = Job {
            isal: self,
            bytes: bytes as c_int,
            tables: vec![0; 32 * rows * count],
            sources: sources.iter().map(|source| source.as_ptr()).collect(),
            dsts: dsts.iter_mut().map(|dst| dst.as_mut_ptr()).collect(),
        };
        job.set(coefficients);
        job
    }

    /// Inverts a matrix of n rows; false if it has no inverse.
    pub(crate) fn invert(&self, matrix: &mut [u8], inverse: &mut [u8], n: usize) -> bool {
        assert!(matrix.len() == n * n && inverse.len() == n * n);
        // SAFETY: both are n × n bytes.
        unsafe { (self.invert_matrix)(matrix.as_mut_ptr(), inverse.as_mut_ptr(), n as c_int) == 0 }
    }
}

impl Job<'_> {
    /// Replaces the coefficients.
    pub(crate) fn set(&mut self, coefficients: &[u8]) {
        let (count, rows) = (self.sources.len() as c_int, self.dsts.len() as c_int);
        assert!(coefficients.len() == self.sources.len() * self.dsts.len());
        // SAFETY: the tables have 32 bytes for each coefficient.
        unsafe {
            (self.isal.init_tables)(count, rows, coefficients.as_ptr(), self.tables.as_mut_ptr());
        }
    }

    /// Computes the combinations. The rows that the job was made from must still be there.
    pub(crate) fn run(&self) {
        let (count, rows) = (self.sources.len() as c_int, self.dsts.len() as c_int);
        let (tables, sources, dsts) =
            (self.tables.as_ptr(), self.sources.as_ptr(), self.dsts.as_ptr());
        // SAFETY: the benches keep the rows for as long as the job, and look at none meanwhile.
        unsafe { (self.isal.encode_data)(self.bytes, count, rows, tables, sources, dsts) }
    }
}
