CREATE VIEW IF NOT EXISTS exchanges AS
SELECT * EXCEPT (kind)
FROM interceptions
WHERE kind = 'outcome'
