CREATE TABLE IF NOT EXISTS schema_migrations
(
    version  UInt32,
    name     String,
    checksum FixedString(64),
    applied  DateTime64(6, 'UTC')
)
ENGINE = $ENGINE
ORDER BY version
