package fdbpq

// SpareBytes bounds what ids take of a store without room.
func SpareBytes(s *Store, most int64) { s.room.most = most }
