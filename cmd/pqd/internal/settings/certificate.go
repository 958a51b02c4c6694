package settings

// BadPair says that two files are no certificate and its key.
func BadPair(certVariable string, cert ExistingFile, keyVariable string, key ExistingFile, err error) error {
	return Usagef("%s=%q and %s=%q: expected a certificate and its key: %w", certVariable, cert, keyVariable, key, err)
}
