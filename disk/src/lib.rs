//! The state disk: LUKS2, the authenticated token, device-mapper.
