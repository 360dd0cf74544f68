-- How many starts and machines are there of each application, and of which days?
-- Of the versions alone that may be shown: what is hidden cannot be reckoned from these sums.
-- What the rules are: docs/fleet-sql.md.
with shown as (
    select app, version
    from pings
    where ('{app}' = '' or app = '{app}')
    group by app, version
    having count(distinct machine) >= {k}
)
select p.app as app, count(distinct p.version) as versions, count(*) as n, count(distinct p.machine) as machines,
    min(p.day) as first_day, max(p.day) as last_day
from pings p
join shown s on p.app = s.app and p.version = s.version
group by p.app
order by p.app
