//! TLS of the client: whom it trusts, and what it keeps of sessions to resume them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConfig, ClientConnection, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};

use super::config::TlsConfig;
use crate::tls::{PROTOCOL, Session, provider};

/// Tickets kept, for each connection of a worker: a server commonly sends two.
const TICKETS_PER_CONNECTION: usize = 2;

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The name is none that a certificate can have.
    #[error("`{0}` is not a name that a server's certificate can have")]
    Name(String),
    #[error("cannot read certificates from {path}: {source}")]
    Ca { path: String, source: pem::Error },
    /// A file without certificates, or with some that are none.
    #[error("{path} has no certificate of an authority: {reason}")]
    NoAuthority { path: String, reason: String },
    #[error(
        "this machine has no trusted authorities (package ca-certificates): name one with --ca \
         FILE, or trust anybody with --insecure"
    )]
    NoAuthorities,
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Begins TLS on connections to one server.
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Connector {
    /// For so many connections at a time.
    ///
    /// # Errors
    ///
    /// If there is nobody to trust, or the name is none.
    pub fn new(config: &TlsConfig, connections: usize) -> Result<Self, TlsError> {
        let name = ServerName::try_from(config.name.clone())
            .map_err(|_| TlsError::Name(config.name.clone()))?;
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let mut tls = if config.verifies {
            builder.with_root_certificates(authorities(config)?).with_no_client_auth()
        } else {
            let anybody = Arc::new(Anybody(provider));
            let dangerous = builder.dangerous().with_custom_certificate_verifier(anybody);
            dangerous.with_no_client_auth()
        };
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        tls.resumption = if config.resumes {
            Resumption::store(Arc::new(Sessions::new(connections * TICKETS_PER_CONNECTION)))
        } else {
            Resumption::disabled()
        };
        Ok(Self { config: Arc::new(tls), name })
    }

    /// For a connection that is established.
    pub(crate) fn begin(&self) -> Result<Session, rustls::Error> {
        let (config, name) = (Arc::clone(&self.config), self.name.clone());
        ClientConnection::new(config, name).map(Session::new)
    }
}

/// Those in the file, or those that this machine trusts.
fn authorities(config: &TlsConfig) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = &config.ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) };
    };
    let path = || file.display().to_string();
    let failed = |source| TlsError::Ca { path: path(), source };
    for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
        let added = roots.add(certificate.map_err(failed)?);
        added.map_err(|error| TlsError::NoAuthority { path: path(), reason: error.to_string() })?;
    }
    if roots.is_empty() {
        let reason = "it has no BEGIN CERTIFICATE".to_owned();
        return Err(TlsError::NoAuthority { path: path(), reason });
    }
    Ok(roots)
}

/// Trusts every certificate. Signatures are verified all the same: a server has to do that work.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What is kept of sessions. A worker has one server, so that names make no difference.
#[derive(Debug)]
struct Sessions {
    kept: Mutex<Kept>,
    tickets_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    /// Of TLS 1.3; each is used once (RFC 8446 appendix C.4). The oldest goes first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn new(tickets_max: usize) -> Self {
        Self { kept: Mutex::default(), tickets_max }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.with(|kept| kept.group = Some(group));
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(|kept| kept.group)
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.with(|kept| kept.session = Some(session));
    }

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with(|kept| kept.session.clone())
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {
        self.with(|kept| kept.session = None);
    }

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.with(|kept| {
            if kept.tickets.len() >= self.tickets_max {
                kept.tickets.pop_front();
            }
            kept.tickets.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|kept| kept.tickets.pop_front())
    }
}
