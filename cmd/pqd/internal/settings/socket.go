package settings

import "path/filepath"

// SocketName is the Unix socket in the directory of an embedded store. pqd backup sends its
// request there. Every user who may write to the directory may connect. There is no other
// permission, and no network port.
const SocketName = "pqd.sock"

// Socket is the socket at which pqd answers pqd backup and pqd recover. The socket of a copy lies beside the copy,
// because another copy may take its place.
func (s *Settings) Socket() string {
	if s.Shared() {
		return s.CopyDir() + ".sock"
	}
	return filepath.Join(s.Store.Place, SocketName)
}
