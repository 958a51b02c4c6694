package fdbpq

import "fmt"

// ConfigError says what is wrong with a configuration.
type ConfigError struct {
	Text string
}

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Errorf(format, args...).Error()}
}

func (e *ConfigError) Error() string { return "configuration: " + e.Text }
